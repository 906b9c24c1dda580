"""The parts by which the trainers of a TrainingJob train together, if the job asks for them.

Trainers are pods of an Indexed Job: an index is a pod's for its life, but a successor's name and
address are its own, and its template cannot say how many pods were at its index before. So the
members ConfigMap names the newest pod of each index by UID and address, and its number is the
second in which it was created. A program finds its own number by its UID.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api import injection
from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS, PODS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.api.times import parse_time
from swell.api.trainingjob import COMPLETION_INDEX, TrainingJobPhase, TrainingJobStatus
from swell.operator.framework.recovery import sound_time
from swell.operator.framework.training import (
    MEMBERS_EPOCH,
    REPORT_TOKEN,
    TrainingParts,
    add_training_parts,
    asked_port,
    asks_for_training,
    issue_secret,
    objects,
    replace_secret,
    secret_name,
)
from swell.operator.trainingjob import labels, sizes
from swell.operator.trainingjob.addresses import config_map
from swell.operator.trainingjob.labels import Role, members_name
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    completion_index,
    is_finished,
    is_leaving,
    is_running,
    number_in,
)
from swell.runtime.plan import CreateObject, Step, patch_object

EPOCH = "epoch"
ROLE = Role.TRAINER.value
# The row of an index whose pod has no address. The name never exists, so nobody is there.
NOBODY = "nobody.invalid"
# Pods that are patched in one pass, so that their kubelets look at the new membership at once.
TOUCHED_MAX = 16
# A pod may carry any index; higher ones than a group can have are not listed.
PODS_MAX = 4096
# More digits than a time in seconds has.
_DIGITS_MAX = 12


@dataclass(frozen=True, slots=True)
class ListedPod:
    """The newest pod of an index: its number, UID and address."""

    number: int = 0
    uid: str = ""
    host: str = NOBODY


def trains_together(snapshot: TrainingJobSnapshot, container: Body) -> bool:
    """Whether the job asks for these parts, by its annotation or by its trainers' command."""
    return asks_for_training(None, snapshot.job.metadata, [container])


def add_trainer_parts(snapshot: TrainingJobSnapshot, pod: Body) -> None:
    """Add the parts to the trainers' pod spec, if the job asks for them."""
    containers = list(objects(pod.get("containers")))
    if not containers or not trains_together(snapshot, containers[0]):
        return
    meta = snapshot.job.metadata
    port, url = asked_port(containers), snapshot.settings.report_url
    parts = TrainingParts(members_name(meta.name), secret_name(meta), port, url)
    own = (("TRAININGJOB_NAME", meta.name), ("TRAININGJOB_REPLICA_NAME", ROLE))
    add_training_parts(pod, parts, own)
    index = f"metadata.annotations['{COMPLETION_INDEX}']"
    containers[0]["env"] = [
        {"name": "TRAININGJOB_REPLICA_INDEX", "valueFrom": {"fieldRef": {"fieldPath": index}}},
        {
            "name": injection.UID_VARIABLE,
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
        },
        *containers[0]["env"],
    ]


def publish_members(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> list[Step]:
    """The steps to the job's secret and its members ConfigMap, before its trainers are created."""
    held = snapshot.members
    data = members_data(snapshot, status, now)
    if held is None:
        made = config_map(snapshot, members_name(snapshot.job.metadata.name), data)
        return [*_secret_steps(snapshot), CreateObject(CONFIG_MAPS, made)]
    steps = _secret_steps(snapshot)
    meta = held.metadata
    if is_leaving(meta):
        return steps
    if held.data != data:
        change: Body = {"data": {**dict.fromkeys(held.data.keys() - data.keys()), **data}}
        # The version keeps an update that arrives late from bringing back an old address.
        version = meta.resource_version
        steps.append(patch_object(CONFIG_MAPS, meta.key, meta.uid, change, version=version))
    return [*steps, *_touches(snapshot, data[EPOCH])]


def _secret_steps(snapshot: TrainingJobSnapshot) -> list[Step]:
    """The steps to the job's secret, before the first pod that mounts it.

    The record on the job says that it exists. Without one, a secret that an operator made before
    it died is replaced: nobody uses it yet.
    """
    meta = snapshot.job.metadata
    if REPORT_TOKEN in meta.annotations or snapshot.trainer is not None or snapshot.pods:
        return []
    marks = {labels.JOB_NAME: meta.name, labels.JOB_UID: meta.uid}
    if snapshot.job.status.phase is TrainingJobPhase.EMPTY:
        return [issue_secret(TRAINING_JOBS, snapshot.job, marks)]
    return replace_secret(TRAINING_JOBS, snapshot.job, marks)


def members_data(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> dict[str, str]:
    """The ConfigMap's data. The epoch grows with every change of hosts."""
    target, held = sizes.target(snapshot, status), _read(snapshot.members)
    listed = _newest(snapshot, held)
    rows = [listed.get(index, ListedPod()) for index in range(target)]
    hosts = "".join(f"{row.host}\n" for row in rows)
    known = max(listed, default=-1) + 1
    numbers = [listed.get(index, ListedPod()).number for index in range(max(known, target))]
    living = [pod for pod in snapshot.trainers if pod.status.pod_ip and not is_finished(pod)]
    places = sorted((completion_index(pod) or 0, pod.status.pod_ip) for pod in living)
    former = [f"{index}={host}" for index, host in places if index >= target]
    uids = [f"{index}={row.uid}" for index, row in enumerate(rows) if row.uid]
    return {
        ROLE: hosts,
        injection.INSTANCES_FILE: _line(map(str, numbers)),
        injection.UIDS_FILE: _line(uids),
        injection.FORMER_FILE: _line(former),
        injection.SUCCEEDED_FILE: _succeeded(snapshot, listed, target),
        EPOCH: str(_epoch(snapshot, hosts, now)),
    }


def _newest(snapshot: TrainingJobSnapshot, held: dict[int, ListedPod]) -> dict[int, ListedPod]:
    """The newest pod of each index. What a stale cache shows is never put over a newer one."""
    listed = dict(held)
    for pod in sorted(snapshot.trainers, key=_seniority):
        index = completion_index(pod)
        if index is None or index >= PODS_MAX:
            continue
        number = _number(pod)
        if number >= listed.get(index, ListedPod()).number:
            # One that has ended keeps its place until a successor takes it.
            host = NOBODY if is_finished(pod) else pod.status.pod_ip or NOBODY
            listed[index] = ListedPod(number, pod.metadata.uid, host)
    return listed


def _seniority(pod: Pod) -> tuple[int, bool, str]:
    # Of two pods of one second, the one that has ended was the first.
    return _number(pod), not is_finished(pod), pod.metadata.name


def _number(pod: Pod) -> int:
    created = sound_time(pod.metadata.creation_timestamp)
    return int(parse_time(created)) if created else 0


def _succeeded(snapshot: TrainingJobSnapshot, listed: dict[int, ListedPod], target: int) -> str:
    """The first pods that ended with success, while others run; they are written once."""
    held = snapshot.members.data.get(injection.SUCCEEDED_FILE, "") if snapshot.members else ""
    uids = {pod.metadata.uid for pod in snapshot.trainers if pod.status.phase is PodPhase.SUCCEEDED}
    done = [i for i, one in sorted(listed.items()) if i < target and one.uid in uids]
    if not done or len(done) == target:
        return _line(())
    return held if "=" in held else _line(f"{index}={listed[index].number}" for index in done)


def _epoch(snapshot: TrainingJobSnapshot, hosts: str, now: float) -> int:
    """The epoch: one more if the hosts have changed; the job's age in seconds without a record."""
    held = snapshot.members
    known = number_in(held.data.get(EPOCH, "")) if held is not None else None
    if held is None or known is None:
        created = sound_time(snapshot.job.metadata.creation_timestamp)
        return max(1, int(now - parse_time(created))) if created else 1
    return known if held.data.get(ROLE) == hosts else known + 1


def _read(held: ConfigMap | None) -> dict[int, ListedPod]:
    """The pods that the ConfigMap lists, by index; those that cannot be read are left out."""
    if held is None:
        return {}
    hosts = held.data.get(ROLE, "").split()
    pairs = (pair.partition("=") for pair in held.data.get(injection.UIDS_FILE, "").split()[1:])
    uids = {number_in(index): uid for index, _, uid in pairs}
    numbers = held.data.get(injection.INSTANCES_FILE, "").split()[1:]
    return {
        index: ListedPod(
            int(text), uids.get(index, ""), hosts[index] if index < len(hosts) else NOBODY
        )
        for index, text in enumerate(numbers[:PODS_MAX])
        if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    }


def _line(entries: Iterable[str]) -> str:
    return " ".join([ROLE, *entries]) + "\n"


def _touches(snapshot: TrainingJobSnapshot, epoch: str) -> list[Step]:
    """Patch the first trainers that were not told of this epoch: their kubelets look at once."""
    note: Body = {"metadata": {"annotations": {MEMBERS_EPOCH: epoch}}}
    stale = [
        pod
        for pod in snapshot.trainers
        if is_running(pod) and pod.metadata.annotations.get(MEMBERS_EPOCH) != epoch
    ]
    return [
        patch_object(PODS, pod.metadata.key, pod.metadata.uid, note) for pod in stale[:TOUCHED_MAX]
    ]
