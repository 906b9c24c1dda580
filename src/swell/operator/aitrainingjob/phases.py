"""The phases of a job: which may follow which, and which one holds."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.aitrainingjob import FINAL, AITrainingJobStatus, Phase
from swell.api.pod import PodPhase
from swell.operator.aitrainingjob.world import Replica, World, current, is_restarting

_ALIVE = frozenset(
    {Phase.PENDING, Phase.CREATING, Phase.RUNNING, Phase.RESTARTING, Phase.TERMINATING}
)
# From any living phase the next look may find any other: pods come, go and end meanwhile. What
# the table rules out is a job that is born again, ends while pods may be left, or changes after
# its end. A job that is over before anything was created for it ends at once.
TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset(
        {Phase.PENDING, Phase.TERMINATING, Phase.FAILED, Phase.PREEMPTED, Phase.NODE_FAIL}
    ),
    Phase.PENDING: _ALIVE,
    Phase.CREATING: _ALIVE,
    Phase.RUNNING: _ALIVE,
    Phase.RESTARTING: _ALIVE,
    Phase.TERMINATING: _ALIVE | FINAL,
    **dict.fromkeys(FINAL, frozenset[Phase]()),
}

PHASE_TEXT: Mapping[Phase, str] = {
    Phase.EMPTY: "submitted, not yet seen by the operator",
    Phase.PENDING: "accepted; some required pod is not scheduled",
    Phase.CREATING: "every required pod is scheduled, some container is not started",
    Phase.RUNNING: "every rigid role has all its pods active, every elastic one its minimum",
    Phase.TERMINATING: "pods are being deleted, for a restart or an ending",
    Phase.RESTARTING: "the old pods of a restart are gone, the new ones are not all active",
    Phase.SUCCEED: "final: the roles that completePolicy asks for have succeeded",
    Phase.FAILED: "final: failed by failPolicy, by an invalid spec, or by annotation",
    Phase.TIMEOUT: "final: ran for longer than timeLimit",
    Phase.PREEMPTED: "final: ended by the Preempted annotation",
    Phase.NODE_FAIL: "final: a lost node or a broken accelerator that no restart makes good",
}


class IllegalTransitionError(Exception):
    """A decision moved a job from one phase to another that cannot follow it."""

    def __init__(self, old: Phase, new: Phase) -> None:
        super().__init__(f"{old.value or 'no phase'} cannot become {new.value}")
        self.old = old
        self.new = new


def advance(old: Phase, new: Phase) -> Phase:
    """The new phase, if it may follow the old one."""
    if new is old or new in TRANSITIONS[old]:
        return new
    raise IllegalTransitionError(old, new)


def living_phase(world: World, status: AITrainingJobStatus) -> Phase:
    """The phase of a job that has not ended, the first that holds."""
    if any(is_restarting(one, status) for one in world.replicas):
        return Phase.TERMINATING
    if status.restart is not None:
        return Phase.RESTARTING
    if _enough(world, status, active(world, status)):
        return Phase.RUNNING
    if _enough(world, status, bound(world, status)):
        return Phase.CREATING
    return Phase.PENDING


def active(world: World, status: AITrainingJobStatus) -> frozenset[tuple[str, int]]:
    """Replicas that run, or finished without having ended their role."""
    return frozenset(
        (one.role, one.index) for one in current(world, status) if one.is_finished or _runs(one)
    )


def bound(world: World, status: AITrainingJobStatus) -> frozenset[tuple[str, int]]:
    """Replicas that have a node."""
    return frozenset(
        (one.role, one.index)
        for one in current(world, status)
        if (one.is_bound and not one.is_leaving) or one.is_finished
    )


def _runs(replica: Replica) -> bool:
    return replica.phase is PodPhase.RUNNING and not replica.is_leaving


def _enough(
    world: World, status: AITrainingJobStatus, replicas: frozenset[tuple[str, int]]
) -> bool:
    """Whether each rigid role has all its pods among these, each elastic one its minimum."""
    for role, spec in world.roles.items():
        target = status.target_replicas.get(role, 0)
        n_needed = min(spec.minimum, target) if spec.is_elastic else target
        if sum(name == role for name, _ in replicas) < n_needed:
            return False
    return True
