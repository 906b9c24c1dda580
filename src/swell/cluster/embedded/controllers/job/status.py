"""The status of a Job, computed from its counts and its end.

Every finished pod is counted exactly once, in three writes (Kubernetes' job tracking):

    finished, has the finalizer
      | 1. the status lists its UID as uncounted
    listed, has the finalizer
      | 2. the finalizer is removed
    listed, has no finalizer
      | 3. the status raises the number and drops the UID
    counted

Whichever write is lost, the next pass continues from what it finds.
"""

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
    job: Job, counts: JobCounts, to_delete: Sequence[Pod], tracking: Tracking, now: float
) -> JobStatus:
    """The status with counts and start time. Pods about to be deleted count as terminating."""
    started = job.status.start_time
    if started is None and not job.spec.suspend:
        started = format_time(now)
    lost, done = counts.failed_indexes, counts.succeeded_indexes
    return msgspec.structs.replace(
        job.status,
        active=len(counts.active) - len(to_delete),
        ready=counts.n_ready - sum(is_ready(pod) for pod in to_delete),
        terminating=len(counts.terminating) + len(to_delete),
        succeeded=tracking.n_succeeded,
        failed=tracking.n_failed,
        completed_indexes=str(done) if done is not None else "",
        failed_indexes=str(lost) if lost is not None else None,
        uncounted_terminated_pods=tracking.uncounted,
        start_time=started,
    )


def with_end(status: JobStatus, end: JobEnd, tracking: Tracking, now: float) -> JobStatus:
    """Record an end, or declare it final when it is recorded and no pod is left."""
    recorded = is_true(status.conditions, end.interim)
    if not recorded:
        return _with_condition(status, end.interim, end, now)
    # The end is final only when all pods are gone and counted: the numbers no longer change.
    if status.active or status.terminating or not tracking.is_settled:
        return status
    status = _with_condition(status, end.final, end, now)
    if not end.is_success:
        return status
    return msgspec.structs.replace(status, completion_time=format_time(now))


def with_suspension(job: Job, status: JobStatus, now: float) -> JobStatus:
    """Set the condition Suspended. A resumed Job starts anew: its deadline counts from now."""
    held = next((c for c in status.conditions if c.type == SUSPENDED), None)
    if job.spec.suspend == (held is not None and held.status == "True"):
        return status
    if job.spec.suspend:
        condition = _condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now)
    else:
        condition = _condition(SUSPENDED, "False", "JobResumed", "Job resumed", now)
    others = status.conditions
    if held is None:
        conditions = (*others, condition)
    else:
        conditions = tuple(condition if c.type == SUSPENDED else c for c in others)
    started = None if job.spec.suspend else format_time(now)
    return msgspec.structs.replace(status, conditions=conditions, start_time=started)


def _with_condition(status: JobStatus, type_: str, end: JobEnd, now: float) -> JobStatus:
    condition = _condition(type_, "True", end.reason, end.message, now)
    return msgspec.structs.replace(status, conditions=(*status.conditions, condition))


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

# Kubernetes' limit: it keeps a status with as many UIDs below 20 KB.
UNCOUNTED_MAX = 500


@dataclass(frozen=True, slots=True)
class Tracking:
    """The counts that the status is to have, and the pods whose finalizer is removed after that."""

    n_succeeded: int
    n_failed: int
    uncounted: UncountedPods
    released: tuple[Pod, ...]

    @property
    def is_settled(self) -> bool:
        """Whether every pod is counted and has lost its finalizer."""
        return not self.released and self.uncounted == UncountedPods()


def track(job: Job, pods: Sequence[Pod], counts: JobCounts, end: JobEnd | None) -> Tracking:
    """Count pods that have lost their finalizer, and list those that have finished.

    `pods` are without the surplus ones, which do not count.
    """
    held = job.status.uncounted_terminated_pods or UncountedPods()
    tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
    succeeded = [uid for uid in held.succeeded if uid in tracked]
    failed = [uid for uid in held.failed if uid in tracked]
    n_succeeded = job.status.succeeded + len(held.succeeded) - len(succeeded)
    n_failed = job.status.failed + len(held.failed) - len(failed)
    released: list[Pod] = []
    known, new_indexes = counted_indexes(job), set[int]()
    # In the order of indexes, so that completedIndexes stays short while it grows.
    for pod in sorted(pods, key=lambda pod: completion_index(pod) or -1):
        if not is_tracked(pod) or not _is_releasable(job, pod, counts, end):
            continue
        released.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase is PodPhase.SUCCEEDED and uid not in failed:
            if is_indexed(job):
                # Indexes are a set, so nothing can count twice; only their number is bounded.
                index = valid_index(job, pod)
                if index is not None and index not in known:
                    new_indexes.add(index)
            elif uid not in succeeded:
                succeeded.append(uid)
        elif uid not in failed and _counts_as_failed(job, pod, end):
            failed.append(uid)
        if len(new_indexes) + len(succeeded) + len(failed) >= UNCOUNTED_MAX:
            break
    if counts.succeeded_indexes is not None:
        n_succeeded = len(counts.succeeded_indexes)
    uncounted = UncountedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return Tracking(n_succeeded, n_failed, uncounted, tuple(released))


def _is_releasable(job: Job, pod: Pod, counts: JobCounts, end: JobEnd | None) -> bool:
    if job.metadata.deletion_timestamp is not None or end is not None:
        return True
    if pod.status.phase is PodPhase.SUCCEEDED:
        return True
    index = completion_index(pod)
    awaited = counts.replaceable.get(index) if index is not None else None
    return has_failed(job, pod) and (awaited is None or awaited.metadata.uid != pod.metadata.uid)


def _counts_as_failed(job: Job, pod: Pod, end: JobEnd | None) -> bool:
    """Whether the pod counts as failed. When the Job fails, so do its active pods."""
    if not has_failed(job, pod) and (end is None or end.is_success):
        return False
    if is_indexed(job) and valid_index(job, pod) is None:
        return False
    return failure_outcome(job.spec.pod_failure_policy, pod).is_counted
