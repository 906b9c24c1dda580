"""The phases of a job: which may follow which, and which one holds."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase, AITrainingJobStatus
from swell.api.pod import PodPhase
from swell.operator.aitrainingjob.world import Replica, World, current, is_restarting

_ALIVE = frozenset(
    {
        AITrainingJobPhase.PENDING,
        AITrainingJobPhase.CREATING,
        AITrainingJobPhase.RUNNING,
        AITrainingJobPhase.RESTARTING,
        AITrainingJobPhase.TERMINATING,
    }
)
# From any living phase the next look may find any other: pods come, go and end meanwhile. What
# the table rules out is a job that is born again, ends while pods may be left, or changes after
# its end. A job that is over before anything was created for it ends at once.
TRANSITIONS: Mapping[AITrainingJobPhase, frozenset[AITrainingJobPhase]] = {
    AITrainingJobPhase.EMPTY: frozenset(
        {
            AITrainingJobPhase.PENDING,
            AITrainingJobPhase.TERMINATING,
            AITrainingJobPhase.FAILED,
            AITrainingJobPhase.PREEMPTED,
            AITrainingJobPhase.NODE_FAIL,
        }
    ),
    AITrainingJobPhase.PENDING: _ALIVE,
    AITrainingJobPhase.CREATING: _ALIVE,
    AITrainingJobPhase.RUNNING: _ALIVE,
    AITrainingJobPhase.RESTARTING: _ALIVE,
    AITrainingJobPhase.TERMINATING: _ALIVE | FINAL_PHASES,
    **dict.fromkeys(FINAL_PHASES, frozenset[AITrainingJobPhase]()),
}

PHASE_TEXT: Mapping[AITrainingJobPhase, str] = {
    AITrainingJobPhase.EMPTY: "submitted, not yet seen by the operator",
    AITrainingJobPhase.PENDING: "accepted; some required pod is not scheduled",
    AITrainingJobPhase.CREATING: "every required pod is scheduled, some container is not started",
    AITrainingJobPhase.RUNNING: (
        "every rigid role has all its pods active, every elastic one its minimum"
    ),
    AITrainingJobPhase.TERMINATING: "pods are being deleted, for a restart or an ending",
    AITrainingJobPhase.RESTARTING: (
        "the old pods of a restart are gone, the new ones are not all active"
    ),
    AITrainingJobPhase.SUCCEED: "final: the roles that completePolicy asks for have succeeded",
    AITrainingJobPhase.FAILED: "final: failed by failPolicy, by an invalid spec, or by annotation",
    AITrainingJobPhase.TIMEOUT: "final: ran for longer than timeLimit",
    AITrainingJobPhase.PREEMPTED: "final: ended by the Preempted annotation",
    AITrainingJobPhase.NODE_FAIL: (
        "final: a lost node or a broken accelerator that no restart makes good"
    ),
}


class IllegalTransitionError(Exception):
    """A decision moved a job from one phase to another that cannot follow it."""

    def __init__(self, old: AITrainingJobPhase, new: AITrainingJobPhase) -> None:
        super().__init__(f"{old.value or 'no phase'} cannot become {new.value}")
        self.old = old
        self.new = new


def advance(old: AITrainingJobPhase, new: AITrainingJobPhase) -> AITrainingJobPhase:
    """The new phase, if it may follow the old one."""
    if new is old or new in TRANSITIONS[old]:
        return new
    raise IllegalTransitionError(old, new)


def living_phase(world: World, status: AITrainingJobStatus) -> AITrainingJobPhase:
    """The phase of a job that has not ended, the first that holds."""
    if any(is_restarting(one, status) for one in world.replicas):
        return AITrainingJobPhase.TERMINATING
    if status.restart is not None:
        return AITrainingJobPhase.RESTARTING
    if _enough(world, status, active(world, status)):
        return AITrainingJobPhase.RUNNING
    if _enough(world, status, bound(world, status)):
        return AITrainingJobPhase.CREATING
    return AITrainingJobPhase.PENDING


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
