"""The phases of a TrainingJob, which may follow which, and which one comes next."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.trainingjob import FINAL, Phase, TrainingJobStatus
from swell.operator.trainingjob import scaling
from swell.operator.trainingjob.totals import job_total_running
from swell.operator.trainingjob.world import World

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset({Phase.CREATING, Phase.FAILED}),
    # Trainers may end before all of them have run at once.
    Phase.CREATING: frozenset({Phase.RUNNING, Phase.SUCCEED, Phase.FAILED}),
    Phase.RUNNING: FINAL | {Phase.SCALING},
    Phase.SCALING: FINAL | {Phase.RUNNING},
    **dict.fromkeys(FINAL, frozenset[Phase]()),
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


def living_phase(world: World, status: TrainingJobStatus) -> Phase:
    """The phase of a job that has not ended."""
    must_scale = scaling.must_scale(world, status)
    match status.phase:
        case Phase.RUNNING:
            return Phase.SCALING if must_scale else Phase.RUNNING
        case Phase.SCALING:
            return Phase.RUNNING if scaling.holds(world, status) else Phase.SCALING
        case _:
            is_up = not must_scale and job_total_running(world)
            return Phase.RUNNING if is_up else Phase.CREATING
