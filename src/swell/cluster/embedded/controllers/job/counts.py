"""Counts the pods of a Job, together with those that its status has counted already.

Every finished pod counts exactly once; `status` describes how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.api.workloads import Job, UncountedPods
from swell.cluster.embedded.controllers.job.failurepolicy import FailureAction, failure_outcome
from swell.cluster.embedded.controllers.job.indexes import Indexes
from swell.cluster.embedded.controllers.job.pods import (
    failure_count,
    has_failed,
    ignored_failure_count,
    indexes_of,
    is_indexed,
    is_tracked,
    valid_index,
)
from swell.cluster.embedded.controllers.pods import (
    finished_at,
    is_active,
    is_ready,
    is_terminating,
)


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Pods by state, and the numbers of succeeded and failed ones, including uncounted ones.

    `succeeded_indexes` and `failed_indexes` are None for Jobs that have none. `replaceable` has the
    latest failed pod of each index that needs a new pod. The new pod inherits its number of
    failures, so it keeps its finalizer until the new one exists.
    """

    active: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    n_ready: int
    n_succeeded: int
    n_failed: int
    succeeded_indexes: Indexes | None
    failed_indexes: Indexes | None
    replaceable: Mapping[int, Pod]


def count_pods(job: Job, pods: Sequence[Pod]) -> JobCounts:
    """Count the pods that a Job owns."""
    uncounted = job.status.uncounted_terminated_pods or UncountedPods()
    active = tuple(pod for pod in pods if is_active(pod))
    succeeded = _newly_ended(
        job, (p for p in pods if p.status.phase is PodPhase.SUCCEEDED), uncounted.succeeded
    )
    failed = _newly_ended(job, (p for p in pods if has_failed(job, p)), uncounted.failed)
    n_counted_failed = sum(
        failure_outcome(job.spec.pod_failure_policy, pod).is_counted for pod in failed
    )
    n_succeeded = job.status.succeeded + len(succeeded) + len(uncounted.succeeded)
    done = _succeeded_indexes(job, pods) if is_indexed(job) else None
    lost = _failed_indexes(job, pods) if _limits_each_index(job) else None
    replaceable: Mapping[int, Pod] = {}
    if done is not None and lost is not None:
        replaceable = _replaceable(job, pods, done | lost | indexes_of(active))
    return JobCounts(
        active=active,
        terminating=tuple(pod for pod in pods if is_terminating(pod)),
        n_ready=sum(is_ready(pod) for pod in active),
        n_succeeded=n_succeeded if done is None else len(done),
        n_failed=job.status.failed + n_counted_failed + len(uncounted.failed),
        succeeded_indexes=done,
        failed_indexes=lost,
        replaceable=replaceable,
    )


def _limits_each_index(job: Job) -> bool:
    return is_indexed(job) and job.spec.backoff_limit_per_index is not None


def _newly_ended(job: Job, ended: Iterable[Pod], uncounted: Sequence[str]) -> list[Pod]:
    """The finished pods that neither the numbers nor the lists of the status contain yet."""
    return [
        pod
        for pod in ended
        if is_tracked(pod)
        and pod.metadata.uid not in uncounted
        and (not is_indexed(job) or valid_index(job, pod) is not None)
    ]


def counted_indexes(job: Job) -> Indexes:
    """The completed indexes in the status, without those a smaller Job no longer has."""
    return Indexes.parse(job.status.completed_indexes, job.spec.completions or 0)


def _succeeded_indexes(job: Job, pods: Iterable[Pod]) -> Indexes:
    new = {
        index
        for pod in pods
        if pod.status.phase is PodPhase.SUCCEEDED
        and is_tracked(pod)
        and (index := valid_index(job, pod)) is not None
    }
    return counted_indexes(job) | Indexes.of(new)


def _failed_indexes(job: Job, pods: Iterable[Pod]) -> Indexes:
    known = Indexes.parse(job.status.failed_indexes or "", job.spec.completions or 0)
    new = {
        index
        for pod in pods
        if is_tracked(pod)
        and (index := valid_index(job, pod)) is not None
        and _exhausts_index(job, pod)
    }
    return known | Indexes.of(new)


def _exhausts_index(job: Job, pod: Pod) -> bool:
    """Whether the pod's failure was the last one that its index was allowed."""
    if not has_failed(job, pod):
        return False
    outcome = failure_outcome(job.spec.pod_failure_policy, pod)
    if outcome.action is FailureAction.FAIL_INDEX:
        return True
    limit = job.spec.backoff_limit_per_index or 0
    return outcome.is_counted and failure_count(pod) >= limit


def _replaceable(job: Job, pods: Iterable[Pod], settled: Indexes) -> dict[int, Pod]:
    """The latest failed pod of each index that is neither settled nor has an active pod."""
    latest: dict[int, Pod] = {}
    for pod in pods:
        index = valid_index(job, pod)
        if index is None or index in settled or not is_tracked(pod) or not has_failed(job, pod):
            continue
        # The latest has the highest count of failures, which its successor inherits.
        if index not in latest or _attempt(pod) >= _attempt(latest[index]):
            latest[index] = pod
    return latest


def _attempt(pod: Pod) -> tuple[int, float, Uid]:
    return n_attempts_before(pod), finished_at(pod), pod.metadata.uid


def n_attempts_before(pod: Pod) -> int:
    """The number of earlier failures of the pod's index, counted and ignored."""
    return failure_count(pod) + ignored_failure_count(pod)
