"""The status of a Job, given what was counted and decided. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from swell.api.meta import Condition
from swell.api.pod import Pod, PodPhase
from swell.api.times import format_time
from swell.api.workloads import Job, JobStatus, UncountedPods
from swell.cluster.embedded.controllers.job.counts import JobCounts, counted_indexes
from swell.cluster.embedded.controllers.job.end import JobEnd, is_true
from swell.cluster.embedded.controllers.job.failurepolicy import failure_outcome
from swell.cluster.embedded.controllers.job.pods import (
    completion_index,
    has_failed,
    is_indexed,
    is_tracked,
    valid_index,
)
from swell.cluster.embedded.controllers.pods import is_ready

SUSPENDED = "Suspended"


def next_status(
    job: Job, counted: JobCounts, doomed: Sequence[Pod], tracking: Tracking, now: float
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


def with_end(status: JobStatus, ending: JobEnd, tracking: Tracking, now: float) -> JobStatus:
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


def _with_condition(status: JobStatus, type_: str, ending: JobEnd, now: float) -> JobStatus:
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


# --- tracking ------------------------------------------------------------------------------------

# Keeps a status with as many UIDs below 20 KB.
UNCOUNTED_MAX = 500


@dataclass(frozen=True, slots=True)
class Tracking:
    """The counts a status shall hold, and the pods whose finalizer goes once it holds them."""

    n_succeeded: int
    n_failed: int
    uncounted: UncountedPods
    released: tuple[Pod, ...]

    @property
    def is_settled(self) -> bool:
        """Whether every pod is counted, and free."""
        return not self.released and self.uncounted == UncountedPods()


def track(job: Job, pods: Sequence[Pod], counted: JobCounts, ending: JobEnd | None) -> Tracking:
    """Count what has been freed, name what has ended. `pods` are without those given up."""
    held = job.status.uncounted_terminated_pods or UncountedPods()
    tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
    succeeded = [uid for uid in held.succeeded if uid in tracked]
    failed = [uid for uid in held.failed if uid in tracked]
    n_succeeded = job.status.succeeded + len(held.succeeded) - len(succeeded)
    n_failed = job.status.failed + len(held.failed) - len(failed)
    released: list[Pod] = []
    known, new_indexes = counted_indexes(job), set[int]()
    for pod in sorted(pods, key=lambda pod: completion_index(pod) or -1):
        if not is_tracked(pod) or not _is_releasable(job, pod, counted, ending):
            continue
        released.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase is PodPhase.SUCCEEDED and uid not in failed:
            if is_indexed(job):
                # The index itself keeps it from counting twice; only the number is bounded.
                index = valid_index(job, pod)
                if index is not None and index not in known:
                    new_indexes.add(index)
            elif uid not in succeeded:
                succeeded.append(uid)
        elif uid not in failed and _counts_as_failed(job, pod, ending):
            failed.append(uid)
        if len(new_indexes) + len(succeeded) + len(failed) >= UNCOUNTED_MAX:
            break
    if counted.succeeded_indexes is not None:
        n_succeeded = len(counted.succeeded_indexes)
    uncounted = UncountedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return Tracking(n_succeeded, n_failed, uncounted, tuple(released))


def _is_releasable(job: Job, pod: Pod, counted: JobCounts, ending: JobEnd | None) -> bool:
    if job.metadata.deletion_timestamp is not None or ending is not None:
        return True
    if pod.status.phase is PodPhase.SUCCEEDED:
        return True
    index = completion_index(pod)
    awaited = counted.replaceable.get(index) if index is not None else None
    return has_failed(job, pod) and (awaited is None or awaited.metadata.uid != pod.metadata.uid)


def _counts_as_failed(job: Job, pod: Pod, ending: JobEnd | None) -> bool:
    """Whether its end counts; when a Job fails, so do the pods that were still at work."""
    if not has_failed(job, pod) and (ending is None or ending.is_success):
        return False
    if is_indexed(job) and valid_index(job, pod) is None:
        return False
    return failure_outcome(job.spec.pod_failure_policy, pod).is_counted
