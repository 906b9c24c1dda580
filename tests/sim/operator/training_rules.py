"""What the operator must never do to jobs whose programs train together."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import to_body
from swell.api.injection import INSTANCE_VARIABLE, INSTANCES_FILE, REPORT_TOKEN_LABEL
from swell.api.kinds import CONFIG_MAPS, PODS, SECRETS
from swell.api.meta import Body, Key, Uid
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob import labels
from swell.operator.framework.training import REPORT_TOKEN, SECRET_ENTRY
from swell.sim.observation import owner_of, pod_states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.departure_rules import was_asked
from tests.sim.operator.observation import job_states, replica_of
from tests.sim.wiping import SoundHistory


def _created_pod(world: SimulatedWorld, commit: Commit) -> Body | None:
    """The pod that the operator creates by a commit for a program that trains with others."""
    if commit.collection != str(PODS) or commit.before or not commit.after:
        return None
    body = commit.after.body
    if not world.is_subject(commit.actor) or "swell-secret" not in _volumes(body):
        return None
    return body


def _volumes(pod: Body) -> dict[str, Body]:
    return {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}


def _token_of(secret: Body) -> str:
    value = base64.b64decode(secret["data"][SECRET_ENTRY])
    return hmac.digest(value, REPORT_TOKEN_LABEL, "sha256").hex()


@dataclass
class SecretBeforePods:
    """A pod's secret and the record of it are there when the pod is created, and stay."""

    world: SimulatedWorld
    name: str = "T1 secret before pods"
    _held: dict[Key, str] = field(default_factory=dict)
    _recorded: dict[Uid, str] = field(default_factory=dict)
    _mounted: dict[Key, Uid] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        yield from self._on_record(commit)
        if commit.collection == str(SECRETS):
            if commit.after is None:
                self._held.pop(commit.key, None)
            else:
                self._held[commit.key] = _token_of(commit.after.body)
                if commit.key in self._mounted:
                    yield f"{commit.key} was replaced under the pods that know the old one"
        body = _created_pod(self.world, commit)
        if body is None:
            return
        name = _volumes(body)["swell-secret"]["secret"]["secretName"]
        key = Key(commit.key.namespace, name)
        uid = body["metadata"]["ownerReferences"][0]["uid"]
        self._mounted[key] = uid
        if key not in self._held:
            yield f"{commit.key} was created before its secret"
        if uid not in self._recorded:
            yield f"{commit.key} was created before its secret was on record"
        elif self._held.get(key) != self._recorded[uid]:
            yield f"{commit.key} was created with another secret than its job has on record"

    def _on_record(self, commit: Commit) -> Iterator[str]:
        _, job = job_states(commit)
        token = job.metadata.annotations.get(REPORT_TOKEN) if job is not None else None
        if job is None or token is None:
            return
        self._recorded[job.metadata.uid] = token
        for key, uid in self._mounted.items():
            if uid == job.metadata.uid and self._held.get(key, token) != token:
                yield f"{commit.key} has another secret on record than its pods"


@dataclass
class NumbersGrow:
    """Each pod at an index has a higher number than those before it, recorded before it is made."""

    world: SimulatedWorld
    name: str = "T2 numbers grow"
    _recorded: dict[Key, dict[str, list[int]]] = field(default_factory=dict)
    _used: dict[tuple[Uid, str, int], int] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.collection == str(CONFIG_MAPS):
            data = (commit.after.body.get("data") or {}) if commit.after else {}
            lines = [line.split() for line in data.get(INSTANCES_FILE, "").splitlines()]
            self._recorded[commit.key] = {line[0]: [int(n) for n in line[1:]] for line in lines}
        body = _created_pod(self.world, commit)
        _, pod = pod_states(commit)
        if body is None or pod is None:
            return
        env = {one["name"]: one.get("value") for one in body["spec"]["containers"][0]["env"]}
        number = int(env[INSTANCE_VARIABLE])
        role, index = replica_of(pod)
        place = (owner_of(pod), role, index)
        if number <= self._used.get(place, 0):
            yield f"{commit.key} is number {number} again"
        self._used[place] = number
        job = body["metadata"]["labels"][labels.JOB_NAME]
        key = Key(commit.key.namespace, labels.members_name(job))
        listed = self._recorded.get(key, {}).get(role, [])
        if not (index < len(listed) and listed[index] >= number):
            yield f"{commit.key} is number {number}, recorded are {listed}"


# What a status may differ in when it is written for a report alone.
_OF_REPORTS = frozenset({"training", "lastReconcileTime", "replicaStatuses", "ready", "message"})
_MINUTE_S, _WRITES_A_MINUTE = 60.0, 6


@dataclass
class ReportsAreWrittenSeldom:
    """A job's status is written for its program's reports at most six times a minute."""

    world: SimulatedWorld
    name: str = "T3 reports are written seldom"
    _written: dict[Uid, list[float]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or after is None or not self.world.is_subject(commit.actor):
            return
        old, new = to_body(before.status), to_body(after.status)
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        if "training" not in changed or not changed <= _OF_REPORTS:
            return
        now_s = self.world.clock.monotonic()
        times = self._written.setdefault(after.metadata.uid, [])
        # The wall clock of the operator may be set forward, for whom the minute is over then.
        times[:] = [at for at in times if now_s - at < _MINUTE_S] + [now_s]
        if len(times) > _WRITES_A_MINUTE + 1:
            yield f"{commit.key} was written {len(times)} times in a minute for reports"


@dataclass
class HoldersStay:
    """No pod that a shrink gives up is deleted or asked while the status says that it waits.

    One that was asked to leave before goes whatever has become of the reason.
    """

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "T4 holders stay"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if before.metadata.deletion_timestamp or was_asked(before):
            return
        if after is None or after.metadata.deletion_timestamp:
            verb, what = "delete", "deleted"
        elif was_asked(after):
            verb, what = "patch", "asked to leave"
        else:
            return
        job = self.history.when_sent(commit, verb, owner_of(before))
        if job is None or job.metadata.deletion_timestamp or job.status.ending:
            return
        role, index = replica_of(before)
        is_surplus = index >= job.status.target_replicas.get(role, 0)
        if is_surplus and f"{role} keeps " in job.status.message:
            yield f"{commit.key} {what} although {job.status.message}"
