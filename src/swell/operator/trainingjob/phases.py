"""The phases of a TrainingJob: which may follow which, and which one comes next.

    ""  -->  Creating  -->  Running  <-->  Scaling
     |           |             |              |
     v           v             v              v
    Failed    Succeed       Succeed, Failed or Timeout
              or Failed

Final phases never change.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.trainingjob import FINAL_PHASES, TrainingJobPhase, TrainingJobStatus
from swell.operator.trainingjob import sizes
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot

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


def living_phase(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> TrainingJobPhase:
    """The phase of a job that has not ended."""
    must_scale = sizes.must_scale(snapshot, status)
    match status.phase:
        case TrainingJobPhase.RUNNING:
            return TrainingJobPhase.SCALING if must_scale else TrainingJobPhase.RUNNING
        case TrainingJobPhase.SCALING:
            return (
                TrainingJobPhase.RUNNING
                if sizes.holds(snapshot, status)
                else TrainingJobPhase.SCALING
            )
        case _:
            is_up = not must_scale and sizes.job_total_running(snapshot)
            return TrainingJobPhase.RUNNING if is_up else TrainingJobPhase.CREATING
