"""Properties of a Job's pod: its completion index, its failures, and whether it counts."""

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
    """Whether the pod still has the tracking finalizer: its Job has not counted it yet."""
    return TRACKING in pod.metadata.finalizers


def completion_index(pod: Pod) -> int | None:
    """The pod's completion index; None without a valid annotation."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() and text.isascii() else None


def valid_index(job: Job, pod: Pod) -> int | None:
    """The pod's completion index; None when it is not below the Job's completions."""
    index = completion_index(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def indexes_of(pods: Iterable[Pod]) -> Indexes:
    return Indexes.of({i for pod in pods if (i := completion_index(pod)) is not None})


def replaces_only_failed(spec: JobSpec) -> bool:
    """Whether a pod is replaced only when it has failed, not already while it is being deleted."""
    return spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether the pod counts as failed.

    A pod that is being deleted does too, unless only failed pods are replaced.
    """
    if pod.status.phase is PodPhase.FAILED:
        return True
    if replaces_only_failed(job.spec):
        return False
    return is_deleted(pod) and pod.status.phase is not PodPhase.SUCCEEDED


def failure_count(pod: Pod) -> int:
    """The number of earlier failures of the pod's index that counted."""
    return _annotated(pod, FAILURE_COUNT)


def ignored_failure_count(pod: Pod) -> int:
    return _annotated(pod, IGNORED_FAILURE_COUNT)


def _annotated(pod: Pod, name: str) -> int:
    text = pod.metadata.annotations.get(name, "")
    number = int(text) if text.isdecimal() and text.isascii() else 0
    return number if number <= _INT32_MAX else 0
