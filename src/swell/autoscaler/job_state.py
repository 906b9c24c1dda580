"""Where each replica of a job counts, and what state its roles are in. Pure.

Every index below a role's target counts exactly once, whatever its pod is going through: at a node,
or as a pod that still has to find one, or not at all because its work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from swell.api.pod import PodPhase
from swell.api.scheduling import PodGroup
from swell.autoscaler.needs import Needs
from swell.autoscaler.views import AutoscalerJob, AutoscalerNode, AutoscalerPod, AutoscalerRole

IsCounted = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """So many replicas at a node, or without one."""

    node: str
    needs: Needs
    n: int = 1


@dataclass(frozen=True, slots=True)
class RoleState:
    """A role and its pods, those of the lowest index first."""

    view: AutoscalerRole
    pods: tuple[AutoscalerPod, ...]

    @property
    def has_succeeded(self) -> bool:
        """Whether the role is being finished: its size stays what it is."""
        return any(pod.phase is PodPhase.SUCCEEDED for pod in self.pods)

    def bound(self) -> frozenset[int]:
        """The indexes that have their room, or need it no more."""
        return self._indexes(lambda pod: pod.is_bound or pod.phase is PodPhase.SUCCEEDED)

    def running(self) -> frozenset[int]:
        """The indexes that are at work, and are to stay there."""
        return self._indexes(lambda pod: pod.is_bound and pod.phase is PodPhase.RUNNING)

    def _indexes(self, is_meant: Callable[[AutoscalerPod], bool]) -> frozenset[int]:
        return frozenset(
            pod.claim.index
            for pod in self.pods
            if pod.claim is not None and pod.claim.index is not None and is_meant(pod)
        )


@dataclass(frozen=True, slots=True)
class JobTally:
    """What a live job asks of the cluster, and what it has of it."""

    roles: tuple[RoleState, ...]
    counts: tuple[ReplicaCount, ...]
    has_unscheduled: bool


def tally(job: AutoscalerJob, pods: Iterable[AutoscalerPod], is_counted: IsCounted) -> JobTally:
    """The counts of a live job. `pods` are its own; those of roles it does not have are ignored."""
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
    """By index; of several pods of one index the one that stands for it first."""
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
        if pod.claim is not None and pod.claim.index is not None and pod.claim.index < role.target:
            first.setdefault(pod.claim.index, pod)
    for pod in first.values():
        if pod.phase is PodPhase.SUCCEEDED:
            continue
        if pod.phase is PodPhase.FAILED and not role.replaces_failed:
            continue
        yield _count(role, pod, is_counted)
    if len(first) < role.target:
        yield ReplicaCount("", role.needs, role.target - len(first))


def _numbered(
    role: AutoscalerRole, pods: Sequence[AutoscalerPod], is_counted: IsCounted
) -> Iterator[ReplicaCount]:
    """Pods of equal standing: those with a place fill the role first."""
    alive = [pod for pod in pods if not pod.is_finished and not pod.is_leaving]
    alive.sort(key=lambda pod: (not (pod.node and is_counted(pod.node)), pod.key.name))
    for pod in alive[: role.target]:
        yield _count(role, pod, is_counted)
    if len(alive) < role.target:
        yield ReplicaCount("", role.needs, role.target - len(alive))


def _count(role: AutoscalerRole, pod: AutoscalerPod, is_counted: IsCounted) -> ReplicaCount:
    """At its node if it stays there; otherwise it, or the pod that follows it, wants a place."""
    if pod.is_bound and is_counted(pod.node):
        return ReplicaCount(pod.node, pod.needs)
    is_asking = not pod.node and not pod.is_leaving and not pod.is_finished
    return ReplicaCount("", pod.needs if is_asking else role.needs)


# Conditions of a group that is refused for its queue, not for want of room.
REFUSED_FOR_QUEUE = frozenset(
    {"QueueNotFound", "QueueClosed", "QueueQuotaExceeded", "QueueTreeInvalid"}
)


class CountedNodes:
    """The nodes that count, by name, and what they offer when they are empty."""

    def __init__(self, nodes: Sequence[AutoscalerNode]) -> None:
        self.nodes = tuple(nodes)
        self.totals: dict[str, int] = {}
        for node in nodes:
            for name, amount in node.allocatable.items():
                self.totals[name] = self.totals.get(name, 0) + amount
        self._fits: dict[Needs, bool] = {}

    def fit(self, needs: Needs) -> bool:
        """Whether some node, were it empty, would take one replica."""
        found = self._fits.get(needs)
        if found is None:
            found = self._fits[needs] = any(
                needs.fit_in(node.allocatable) and needs.constraints.accept(node.node)
                for node in self.nodes
            )
        return found


def is_hopeless(job: AutoscalerJob, places: CountedNodes, *, is_refused: bool) -> bool:
    """Whether a pending job cannot start, however much room others make."""
    if is_refused or not all(places.fit(role.needs) for role in job.roles):
        return True
    minimum: dict[str, int] = {}
    for role in job.roles:
        for name, amount in role.needs.requests.items():
            minimum[name] = minimum.get(name, 0) + role.gang_minimum * amount
    return any(amount > places.totals.get(name, 0) for name, amount in minimum.items())


def is_refused_for_queue(group: PodGroup) -> bool:
    return any(
        condition.type == "Unschedulable"
        and condition.status == "True"
        and condition.reason in REFUSED_FOR_QUEUE
        for condition in group.status.conditions
    )
