"""The phases of a TrainingJob: which may follow which, and which one comes next.

    ""  -->  Creating  -->  Running  <-->  Scaling
     |         | ^             |              |
     |         | +-------------+--------------+   when it is suspended
     v         v               v              v
    Failed    Succeed       Succeed, Failed or Timeout
              or Failed

Final phases never change.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.trainingjob import FINAL_PHASES, TrainingJobStatus
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.operator.trainingjob import sizes
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset({Phase.CREATING, Phase.FAILED}),
    # Trainers may end before all of them have run at once.
    Phase.CREATING: frozenset({Phase.RUNNING, Phase.SUCCEED, Phase.FAILED}),
    # A job that is suspended begins again.
    Phase.RUNNING: FINAL_PHASES | {Phase.SCALING, Phase.CREATING},
    Phase.SCALING: FINAL_PHASES | {Phase.RUNNING, Phase.CREATING},
    **dict.fromkeys(FINAL_PHASES, frozenset[Phase]()),
}


def living_phase(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> Phase:
    """The phase of a job that has not ended."""
    must_scale = sizes.must_scale(snapshot, status)
    match status.phase:
        case Phase.RUNNING:
            return Phase.SCALING if must_scale else Phase.RUNNING
        case Phase.SCALING:
            return Phase.RUNNING if sizes.holds(snapshot, status) else Phase.SCALING
        case _:
            is_up = not must_scale and sizes.job_total_running(snapshot)
            return Phase.RUNNING if is_up else Phase.CREATING
