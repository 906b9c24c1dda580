"""The phases of a TrainingJob, which may follow which, and which one comes next."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.trainingjob import FINAL_PHASES, TrainingJobPhase, TrainingJobStatus
from swell.operator.trainingjob import scaling
from swell.operator.trainingjob.totals import job_total_running
from swell.operator.trainingjob.world import World

TRANSITIONS: Mapping[TrainingJobPhase, frozenset[TrainingJobPhase]] = {
    TrainingJobPhase.EMPTY: frozenset({TrainingJobPhase.CREATING, TrainingJobPhase.FAILED}),
    # Trainers may end before all of them have run at once.
    TrainingJobPhase.CREATING: frozenset(
        {TrainingJobPhase.RUNNING, TrainingJobPhase.SUCCEED, TrainingJobPhase.FAILED}
    ),
    TrainingJobPhase.RUNNING: FINAL_PHASES | {TrainingJobPhase.SCALING},
    TrainingJobPhase.SCALING: FINAL_PHASES | {TrainingJobPhase.RUNNING},
    **dict.fromkeys(FINAL_PHASES, frozenset[TrainingJobPhase]()),
}


class IllegalTransitionError(Exception):
    """A decision moved a job from one phase to another that cannot follow it."""

    def __init__(self, old: TrainingJobPhase, new: TrainingJobPhase) -> None:
        super().__init__(f"{old.value or 'no phase'} cannot become {new.value}")
        self.old = old
        self.new = new


def advance(old: TrainingJobPhase, new: TrainingJobPhase) -> TrainingJobPhase:
    """The new phase, if it may follow the old one."""
    if new is old or new in TRANSITIONS[old]:
        return new
    raise IllegalTransitionError(old, new)


def living_phase(world: World, status: TrainingJobStatus) -> TrainingJobPhase:
    """The phase of a job that has not ended."""
    must_scale = scaling.must_scale(world, status)
    match status.phase:
        case TrainingJobPhase.RUNNING:
            return TrainingJobPhase.SCALING if must_scale else TrainingJobPhase.RUNNING
        case TrainingJobPhase.SCALING:
            return (
                TrainingJobPhase.RUNNING
                if scaling.holds(world, status)
                else TrainingJobPhase.SCALING
            )
        case _:
            is_up = not must_scale and job_total_running(world)
            return TrainingJobPhase.RUNNING if is_up else TrainingJobPhase.CREATING
