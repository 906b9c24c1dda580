"""H1: what hung is called so, and cured where failures are; what only failed is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import AITrainingJob, ReplicaSpec, RestartPolicy
from swell.api.injection import HANG_EXIT_CODE
from swell.api.meta import Uid
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob.phases import JobReason
from swell.sim.observation import owner_of, pod_states
from tests.sim.operator.observation import replica_of
from tests.sim.wiping import SoundHistory

_POD = re.compile(r"^pod (\S+) on node ")
_INCURABLE = frozenset({RestartPolicy.NEVER, RestartPolicy.ON_NODE_FAIL})


@dataclass
class HangsCalledSo:
    """A status that blames a pod says Hang of one that hung, if its role asks for that rule."""

    history: SoundHistory[AITrainingJob]
    name: str = "H1 hangs called so"
    # The role of each pod that has ended, and whether it hung, by its job and its name.
    _ended: dict[tuple[Uid, str], tuple[str, bool]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        for held in pod.status.container_statuses if pod is not None else ():
            if pod is not None and held.state.terminated is not None:
                hung = held.state.terminated.exit_code == HANG_EXIT_CODE
                place = owner_of(pod), pod.metadata.name
                self._ended[place] = replica_of(pod)[0], hung
        before, after = self.history.judged(commit)
        if before is None or after is None or self.history.is_repair(commit):
            return
        old, new = before.status, after.status
        named = _POD.match(new.message)
        if named is None or (old.reason, old.message) == (new.reason, new.message):
            return
        role, hung = self._ended.get((after.metadata.uid, named[1]), ("", False))
        spec = {name.lower(): one for name, one in after.spec.replica_specs.items()}.get(role)
        if spec is not None:
            yield from _wrong(f"{commit.key}", after, spec, hung=hung)


def _wrong(key: str, job: AITrainingJob, spec: ReplicaSpec, *, hung: bool) -> Iterator[str]:
    reason, is_asked = job.status.reason, spec.hang_seconds is not None
    if reason == JobReason.HANG.value and not (hung and is_asked):
        yield f"{key} calls it a hang: {job.status.message}"
    if reason == JobReason.POD_FAILED.value and hung and is_asked:
        yield f"{key} does not call it a hang: {job.status.message}"
    is_cured = spec.restart_policy not in _INCURABLE and spec.restart_limit is None
    if job.status.ending is not None and reason == JobReason.HANG.value and is_cured:
        yield f"{key} ends for a hang that is cured by a restart: {job.status.message}"
