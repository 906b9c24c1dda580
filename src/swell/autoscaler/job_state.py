"""The state of one job: where each replica counts, whether it is pending, whether it is hopeless.

Every index below a role's target counts exactly once, whatever its pod is going through: at its
node, as a pod that still has to find a node, or not at all because its work is done. A hopeless job
is a pending one that can never start on this cluster; it must not press on other jobs. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from swell.api.native_groups import GROUP_SCHEDULED, NativeGroup
from swell.api.pod import PodPhase
from swell.api.scheduling import PodGroup
from swell.autoscaler.needs import Needs
from swell.autoscaler.views import AutoscalerJob, AutoscalerNode, AutoscalerPod, AutoscalerRole

IsCounted = Callable[[str], bool]

# Reasons with which the scheduler refuses a group because of its queue, not for lack of room:
# shrinking other jobs would not start it. A full cluster is a lack of room: the job starts with the
# next one that ends, and nobody may grow into its place before.
REFUSED_FOR_QUEUE = frozenset(
    {"QueueNotFound", "QueueClosed", "QueueQuotaExceeded", "QueueTreeInvalid"}
)


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """A number of equal replicas on one node, or on none where `node` is empty."""

    node: str
    needs: Needs
    n: int = 1


@dataclass(frozen=True, slots=True)
class RoleState:
    """A role and its pods, sorted by index."""

    view: AutoscalerRole
    pods: tuple[AutoscalerPod, ...]

    @property
    def has_succeeded(self) -> bool:
        """Whether a replica has succeeded. The role is then finishing and keeps its size."""
        return any(pod.phase is PodPhase.SUCCEEDED for pod in self.pods)

    def bound(self) -> frozenset[int]:
        """Returns the indexes that have a node, or that succeeded and need none any more."""
        return self._indexes(lambda pod: pod.is_bound or pod.phase is PodPhase.SUCCEEDED)

    def running(self) -> frozenset[int]:
        """Returns the indexes that run and are not being deleted."""
        return self._indexes(lambda pod: pod.is_bound and pod.phase is PodPhase.RUNNING)

    def _indexes(self, is_meant: Callable[[AutoscalerPod], bool]) -> frozenset[int]:
        return frozenset(
            pod.claim.index
            for pod in self.pods
            if pod.claim is not None and pod.claim.index is not None and is_meant(pod)
        )


@dataclass(frozen=True, slots=True)
class JobState:
    """A live job with its pods. `is_pending` and `is_hopeless` exclude each other."""

    view: AutoscalerJob
    roles: tuple[RoleState, ...]
    is_pending: bool
    is_hopeless: bool
    # The replicas that count and have no node.
    asking: tuple[ReplicaCount, ...] = ()


@dataclass(frozen=True, slots=True)
class JobTally:
    """The replicas of a live job by role, and where each of them counts."""

    roles: tuple[RoleState, ...]
    counts: tuple[ReplicaCount, ...]
    has_unscheduled: bool


def tally(job: AutoscalerJob, pods: Iterable[AutoscalerPod], is_counted: IsCounted) -> JobTally:
    """Count the replicas of a live job.

    `pods` are the pods of this job; those of roles that the job does not have are ignored.
    """
    by_role: dict[str, list[AutoscalerPod]] = {role.name: [] for role in job.roles}
    for pod in pods:
        if pod.claim is not None and pod.claim.role in by_role:
            by_role[pod.claim.role].append(pod)
    states: list[RoleState] = []
    counts: list[ReplicaCount] = []
    for role in job.roles:
        own = sorted(by_role[role.name], key=_order)
        states.append(RoleState(role, tuple(own)))
        counts += (
            _indexed(role, own, is_counted) if role.is_indexed else _numbered(role, own, is_counted)
        )
    is_unscheduled = any(
        not pod.node and not pod.is_finished and not pod.is_leaving
        for role_state in states
        for pod in role_state.pods
    )
    return JobTally(tuple(states), tuple(counts), is_unscheduled)


def _order(pod: AutoscalerPod) -> tuple[int, int, str]:
    """Sort by index; of several pods with one index, the one that represents it comes first."""
    index = pod.claim.index if pod.claim is not None and pod.claim.index is not None else 0
    return index, _rank(pod), pod.key.name


def _rank(pod: AutoscalerPod) -> int:
    if pod.phase is PodPhase.SUCCEEDED:
        return 0
    if pod.is_leaving or pod.phase is PodPhase.FAILED:
        return 3
    return 1 if pod.node else 2


def _indexed(
    role: AutoscalerRole, pods: Sequence[AutoscalerPod], is_counted: IsCounted
) -> Iterator[ReplicaCount]:
    first: dict[int, AutoscalerPod] = {}
    for pod in pods:
        # Indexes at or above the target are being removed: their room is as good as free.
        if pod.claim is not None and pod.claim.index is not None and pod.claim.index < role.target:
            first.setdefault(pod.claim.index, pod)
    for pod in first.values():
        if pod.phase is PodPhase.SUCCEEDED:
            continue
        if pod.phase is PodPhase.FAILED and not role.replaces_failed:
            continue
        yield _count(role, pod, is_counted)
    # A missing pod will be created: it already counts as one that looks for a node.
    if len(first) < role.target:
        yield ReplicaCount("", role.needs, role.target - len(first))


def _numbered(
    role: AutoscalerRole, pods: Sequence[AutoscalerPod], is_counted: IsCounted
) -> Iterator[ReplicaCount]:
    """Count pods that have no index. Pods on counted nodes fill the role's target first."""
    alive = [pod for pod in pods if not pod.is_finished and not pod.is_leaving]
    alive.sort(key=lambda pod: (not (pod.node and is_counted(pod.node)), pod.key.name))
    for pod in alive[: role.target]:
        yield _count(role, pod, is_counted)
    if len(alive) < role.target:
        yield ReplicaCount("", role.needs, role.target - len(alive))


def _count(role: AutoscalerRole, pod: AutoscalerPod, is_counted: IsCounted) -> ReplicaCount:
    """Count a pod at its node if it stays there, and otherwise as one that needs a node.

    A pod that leaves is replaced by one made from the role's current template, so the role's needs
    count for it.
    """
    if pod.is_bound and is_counted(pod.node):
        return ReplicaCount(pod.node, pod.needs)
    is_asking = not pod.node and not pod.is_leaving and not pod.is_finished
    return ReplicaCount("", pod.needs if is_asking else role.needs)


class CountedNodes:
    """The nodes that are ready and not cordoned, sorted by name, and their total amounts."""

    def __init__(self, nodes: Sequence[AutoscalerNode]) -> None:
        self.nodes = tuple(nodes)
        self.totals: dict[str, int] = {}
        for node in nodes:
            for name, amount in node.allocatable.items():
                self.totals[name] = self.totals.get(name, 0) + amount
        # By shape of replica: many roles share a few shapes, and each costs a walk over all nodes.
        self._fits: dict[Needs, bool] = {}

    def fit(self, needs: Needs) -> bool:
        """Whether one replica would fit on some node if that node were empty."""
        found = self._fits.get(needs)
        if found is None:
            found = self._fits[needs] = any(
                needs.fit_in(node.allocatable) and needs.constraints.accept(node.node)
                for node in self.nodes
            )
        return found


def is_hopeless(job: AutoscalerJob, nodes: CountedNodes, *, is_refused: bool) -> bool:
    """Whether a pending job could not start even if all other jobs made room.

    `is_refused` says that the scheduler refuses the job's group because of its queue.
    """
    if is_refused or not all(nodes.fit(role.needs) for role in job.roles):
        return True
    minimum: dict[str, int] = {}
    for role in job.roles:
        for name, amount in role.needs.requests.items():
            minimum[name] = minimum.get(name, 0) + role.gang_minimum * amount
    return any(amount > nodes.totals.get(name, 0) for name, amount in minimum.items())


def waiting_native_group(group: NativeGroup | None) -> tuple[bool, bool]:
    """Whether a group of Kubernetes itself waits, and whether it does because of its queue.

    One of which no scheduler has said anything does not count: it may belong to a scheduler that
    never says so.
    """
    conditions = () if group is None else group.status.conditions
    said = next((one for one in conditions if one.type == GROUP_SCHEDULED), None)
    if said is None or said.status != "False":
        return False, False
    # The message of our scheduler begins with its reason.
    return True, said.message.partition(":")[0] in REFUSED_FOR_QUEUE


def is_refused_for_queue(group: PodGroup) -> bool:
    """Whether the scheduler refuses a group because of its queue, not for lack of room."""
    return any(
        condition.type == "Unschedulable"
        and condition.status == "True"
        and condition.reason in REFUSED_FOR_QUEUE
        for condition in group.status.conditions
    )
