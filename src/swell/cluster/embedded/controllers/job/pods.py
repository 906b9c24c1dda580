"""What a Job reads from its pods: the index, the failures before it, whether it counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.pod import Pod, PodPhase
from swell.api.workloads import Job, JobSpec
from swell.cluster.embedded.controllers.job.indexes import Indexes
from swell.cluster.embedded.controllers.pods import is_deleted

TRACKING = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
_INT32_MAX = 2**31 - 1


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def is_tracked(pod: Pod) -> bool:
    """Whether it waits to be counted: its Job has not taken the finalizer off."""
    return TRACKING in pod.metadata.finalizers


def completion_index(pod: Pod) -> int | None:
    """The index it works on; None without a proper one."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() and text.isascii() else None


def valid_index(job: Job, pod: Pod) -> int | None:
    """Its index, if it is one of the Job's."""
    index = completion_index(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def indexes_of(pods: Iterable[Pod]) -> Indexes:
    return Indexes.of({i for pod in pods if (i := completion_index(pod)) is not None})


def replaces_only_failed(spec: JobSpec) -> bool:
    """Whether a pod is replaced when it has ended, and not already when it is being deleted."""
    return spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether it counts as failed; so does a pod that is deleted, unless its end is awaited."""
    if pod.status.phase is PodPhase.FAILED:
        return True
    if replaces_only_failed(job.spec):
        return False
    return is_deleted(pod) and pod.status.phase is not PodPhase.SUCCEEDED


def failure_count(pod: Pod) -> int:
    """Failures of its index before it that counted."""
    return _annotated(pod, FAILURE_COUNT)


def ignored_failure_count(pod: Pod) -> int:
    return _annotated(pod, IGNORED_FAILURE_COUNT)


def _annotated(pod: Pod, name: str) -> int:
    text = pod.metadata.annotations.get(name, "")
    number = int(text) if text.isdecimal() and text.isascii() else 0
    return number if number <= _INT32_MAX else 0
