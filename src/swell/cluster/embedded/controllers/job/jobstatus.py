"""The status of a Job, given what was counted and decided. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swell.api.job import Job, JobStatus
from swell.api.meta import Condition
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.cluster.embedded.controllers.job.ending import Ending, is_true
from swell.cluster.embedded.controllers.job.tally import Tally
from swell.cluster.embedded.controllers.job.tracking import Tracking
from swell.cluster.embedded.controllers.pods import is_ready

SUSPENDED = "Suspended"


def next_status(
    job: Job, counted: Tally, doomed: Sequence[Pod], tracking: Tracking, now: float
) -> JobStatus:
    """The status with its counts and start; pods about to be deleted count as on their way out."""
    started = job.status.start_time
    if started is None and not job.spec.suspend:
        started = format_time(now)
    lost, done = counted.failed_indexes, counted.succeeded_indexes
    return msgspec.structs.replace(
        job.status,
        active=len(counted.active) - len(doomed),
        ready=counted.n_ready - sum(is_ready(pod) for pod in doomed),
        terminating=len(counted.terminating) + len(doomed),
        succeeded=tracking.n_succeeded,
        failed=tracking.n_failed,
        completed_indexes=str(done) if done is not None else "",
        failed_indexes=str(lost) if lost is not None else None,
        uncounted_terminated_pods=tracking.uncounted,
        start_time=started,
    )


def with_ending(status: JobStatus, ending: Ending, tracking: Tracking, now: float) -> JobStatus:
    """Record an end; declare it final when it stands recorded and no pod is left to wait for."""
    recorded = is_true(status.conditions, ending.interim)
    if not recorded:
        return _with_condition(status, ending.interim, ending, now)
    if status.active or status.terminating or not tracking.is_settled:
        return status
    status = _with_condition(status, ending.final, ending, now)
    if not ending.is_success:
        return status
    return msgspec.structs.replace(status, completion_time=format_time(now))


def with_suspension(job: Job, status: JobStatus, now: float) -> JobStatus:
    """Say whether the Job is suspended. Its clock starts anew whenever it goes on."""
    held = next((c for c in status.conditions if c.type == SUSPENDED), None)
    if job.spec.suspend == (held is not None and held.status == "True"):
        return status
    if job.spec.suspend:
        told = _condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now)
    else:
        told = _condition(SUSPENDED, "False", "JobResumed", "Job resumed", now)
    others = status.conditions
    if held is None:
        conditions = (*others, told)
    else:
        conditions = tuple(told if c.type == SUSPENDED else c for c in others)
    started = None if job.spec.suspend else format_time(now)
    return msgspec.structs.replace(status, conditions=conditions, start_time=started)


def _with_condition(status: JobStatus, type_: str, ending: Ending, now: float) -> JobStatus:
    told = _condition(type_, "True", ending.reason, ending.message, now)
    return msgspec.structs.replace(status, conditions=(*status.conditions, told))


def _condition(type_: str, status: str, reason: str, message: str, now: float) -> Condition:
    moment = format_time(now)
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment,
    )
