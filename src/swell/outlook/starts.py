"""Estimates of starts as people read them: with their spread, or unknown with a reason."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase, StartEstimate
from swell.api.times import duration, parse_time
from swell.api.trainingjob import TrainingJob

START_HEADING = ("JOB", "STARTS AFTER", "HALF BY", "MOST BY", "DEPENDS ON")
UNKNOWN_START = ("unknown", "unknown", "unknown", "-")
_WAITING = frozenset({AITrainingJobPhase.EMPTY, AITrainingJobPhase.PENDING})
# A TrainingJob is Creating while its pods wait for nodes.
_MAY_WAIT = frozenset({*(phase.value for phase in _WAITING), "Creating"})


def is_waiting(job: AITrainingJob | TrainingJob) -> bool:
    """Whether a job may have a position in a queue."""
    return job.status.phase.value in _MAY_WAIT


def estimate_of(job: AITrainingJob) -> StartEstimate | None:
    """Returns the estimate of a job that waits; that of one which has started says nothing."""
    return job.status.start_estimate if job.status.phase in _WAITING else None


def cells(estimate: StartEstimate, now: float) -> tuple[str, str, str, str]:
    """Returns the three percentiles from now on, and the job that an unknown one depends on."""
    p10, p50, p90 = (_from_now(one, now) for one in (estimate.p10, estimate.p50, estimate.p90))
    return p10, p50, p90, estimate.depends_on or "-"


def sentence(estimate: StartEstimate, now: float) -> str:
    """Returns the estimate as a sentence's end."""
    p10, p50, p90, depends_on = cells(estimate, now)
    because = f": {depends_on} runs, and when it ends is unknown" if depends_on != "-" else ""
    if estimate.p10 is None:
        return f"unknown{because}"
    if estimate.p50 is None:
        return f"not before {p10} from now; beyond that unknown{because}"
    latest = f"{p90} from now" if estimate.p90 is not None else f"a time that is unknown{because}"
    return f"between {p10} and {latest}, half of such jobs within {p50}"


def _from_now(moment: str | None, now: float) -> str:
    if moment is None:
        return "unknown"
    try:
        return duration(max(parse_time(moment) - now, 0.0))
    except ValueError:
        return "unknown"
