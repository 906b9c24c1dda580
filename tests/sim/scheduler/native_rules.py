"""Safety rules about groups of Kubernetes itself, which the operator writes with `--gang-api`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.meta import Uid
from swell.api.pod import Pod
from swell.cluster.embedded.storage import Commit
from swell.sim.invariants import SafetyCheck
from swell.sim.observation import owner_of, pod_states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import jobs_in, replica_of
from tests.sim.scheduler.observation import group_key
from tests.sim.scheduler.rules import safety


def native_safety(world: SimulatedWorld) -> list[SafetyCheck]:
    return [*safety(world), MinimumFirst(world), InTheirGroup(world)]


@dataclass
class MinimumFirst:
    """Pods beyond the minimum of a job are created once all of the minimum have had a node."""

    world: SimulatedWorld
    name: str = "minimum first"
    # By job: replicas of the minimum that have had a node, whatever became of them.
    _placed: dict[Uid, set[tuple[str, int]]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if after is None or not commit.key.name:
            return
        job, replica = owner_of(after), replica_of(after)
        if after.spec.node_name:
            self._placed.setdefault(job, set()).add(replica)
        if before is None and self._is_early(after):
            yield f"{commit.key} is created before the minimum of its job has nodes"

    def _is_early(self, pod: Pod) -> bool:
        job, (role, index) = owner_of(pod), replica_of(pod)
        for one in jobs_in(self.world):
            if one.metadata.uid != job:
                continue
            least = {name.lower(): spec.minimum for name, spec in one.spec.replica_specs.items()}
            wanted = {(name, at) for name, n in least.items() for at in range(n)}
            return index >= least.get(role, 0) and not wanted <= self._placed.get(job, set())
        return False


@dataclass
class InTheirGroup:
    """Every pod of a job is in a group."""

    world: SimulatedWorld
    name: str = "pods are in their group"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None and after is not None and owner_of(after) and not group_key(after):
            yield f"{commit.key} is created without a group"
