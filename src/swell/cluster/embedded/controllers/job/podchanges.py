"""Which pods a Job creates and which it deletes.

One pass never does both: surplus pods are deleted first. After failures new pods wait for the
back-off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.api.kinds import JOBS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.workloads import Job
from swell.cluster.embedded.controllers.claiming import controller_reference
from swell.cluster.embedded.controllers.job.backoff import RETRY, FailureRecord, must_wait
from swell.cluster.embedded.controllers.job.counts import JobCounts, n_attempts_before
from swell.cluster.embedded.controllers.job.failurepolicy import failure_outcome
from swell.cluster.embedded.controllers.job.indexes import Indexes
from swell.cluster.embedded.controllers.job.pods import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING,
    completion_index,
    failure_count,
    ignored_failure_count,
    indexes_of,
    is_indexed,
    replaces_only_failed,
)
from swell.cluster.embedded.controllers.pods import finished_at
from swell.cluster.embedded.controllers.ranking import dispensable_first
from swell.cluster.embedded.controllers.writes import (
    BURST_MAX,
    PREFIX_LENGTH_MAX,
    name_with_suffix,
    pod_from_template,
)
from swell.runtime.plan import CreateObject

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Pods to delete, pods to create, and when pods may be created that have to wait."""

    to_delete: tuple[Pod, ...] = ()
    creates: tuple[CreateObject, ...] = ()
    retry_at: float | None = None


def plan_pods(
    job: Job, counts: JobCounts, record: FailureRecord, seed: int, now: float
) -> PodChanges:
    """Compare the active pods of a Job with those it should have."""
    wanted = _n_wanted(job, counts)
    to_delete = _to_delete(job, counts.active, max(0, len(counts.active) - wanted))
    # A suspended Job deletes all its pods at once; otherwise a pass has a limit.
    if to_delete:
        return PodChanges(to_delete=tuple(to_delete if job.spec.suspend else to_delete[:BURST_MAX]))
    missing = wanted - len(counts.active)
    # A pod that is still terminating holds its place.
    if replaces_only_failed(job.spec):
        missing -= len(counts.terminating)
    if missing <= 0:
        return PodChanges()
    missing = min(missing, BURST_MAX)
    if counts.failed_indexes is not None:
        return _replacements(job, counts, _missing_indexes(job, counts, missing), seed, now)
    if must_wait(record.retry_at, now):
        return PodChanges(retry_at=record.retry_at)
    if is_indexed(job):
        indexes = _missing_indexes(job, counts, missing)
        return PodChanges(creates=tuple(_indexed_pod(job, i, None, seed) for i in indexes))
    return PodChanges(creates=tuple(_pod(job, position, seed) for position in range(missing)))


def _n_wanted(job: Job, counts: JobCounts) -> int:
    """The number of pods that should be active now."""
    if job.spec.suspend:
        return 0
    if job.spec.completions is None:
        # A work queue: after the first success the active pods may finish, and none is created.
        return len(counts.active) if counts.n_succeeded else job.spec.parallelism
    return max(0, min(job.spec.completions - counts.n_succeeded, job.spec.parallelism))


def _to_delete(job: Job, active: Sequence[Pod], at_least: int) -> list[Pod]:
    """Pods to delete, at least so many.

    All pods whose index is invalid or held by another pod too, then those that rank first.
    """
    if not is_indexed(job):
        return dispensable_first(active)[:at_least] if at_least else []
    to_delete: list[Pod] = []
    holders: dict[int, list[Pod]] = {}
    for pod in active:
        index = completion_index(pod)
        if index is None or index >= (job.spec.completions or 0):
            to_delete.append(pod)
        else:
            holders.setdefault(index, []).append(pod)
    left: list[Pod] = []
    for _, duplicates in sorted(holders.items()):
        *extra, kept = dispensable_first(duplicates) if len(duplicates) > 1 else duplicates
        to_delete += extra
        left.append(kept)
    n_more = at_least - len(to_delete)
    return to_delete + dispensable_first(left)[:n_more] if n_more > 0 else to_delete


def _missing_indexes(job: Job, counts: JobCounts, count: int) -> list[int]:
    taken = (counts.succeeded_indexes or Indexes()) | indexes_of(counts.active)
    if replaces_only_failed(job.spec):
        taken |= indexes_of(counts.terminating)
    if counts.failed_indexes is not None:
        taken |= counts.failed_indexes
    return taken.first_missing(count, job.spec.completions or 0)


def _replacements(
    job: Job, counts: JobCounts, indexes: Sequence[int], seed: int, now: float
) -> PodChanges:
    """New pods of indexes that have a back-off limit of their own, each after its own delay."""
    creates: list[CreateObject] = []
    waiting: list[float] = []
    for index in indexes:
        former = counts.replaceable.get(index)
        retry_at = _retry_at(former) if former is not None else 0.0
        if must_wait(retry_at, now):
            waiting.append(retry_at)
        else:
            creates.append(_indexed_pod(job, index, former, seed))
    return PodChanges(creates=tuple(creates), retry_at=min(waiting, default=None))


def _retry_at(former: Pod) -> float:
    return finished_at(former) + RETRY.full_s(n_attempts_before(former) + 1)


def _pod(job: Job, position: int, seed: int) -> CreateObject:
    prefix = f"{job.metadata.name}-"
    return _created(job, _tracked(job.spec.template), prefix, seed, position)


def _indexed_pod(job: Job, index: int, former: Pod | None, seed: int) -> CreateObject:
    """The pod of an index, which it finds in annotation, label, host name and variable."""
    template = _tracked(job.spec.template)
    metadata, spec = template["metadata"], template["spec"]
    annotations = {**(metadata.get("annotations") or {}), COMPLETION_INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        annotations |= _failure_counts(job, former)
    labels = {**(metadata.get("labels") or {}), COMPLETION_INDEX: str(index)}
    spec = {**spec, "hostname": f"{job.metadata.name}-{index}"}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_index_variable(container) for container in spec[field]]
    template = {"metadata": {**metadata, "annotations": annotations, "labels": labels}}
    suffix = f"-{index}-"
    prefix = job.metadata.name[: PREFIX_LENGTH_MAX - len(suffix)] + suffix
    return _created(job, {**template, "spec": spec}, prefix, seed, index)


def _tracked(template: Body) -> Body:
    metadata = template.get("metadata") or {}
    others = [f for f in metadata.get("finalizers") or () if f != TRACKING]
    return {**template, "metadata": {**metadata, "finalizers": [*others, TRACKING]}}


def _created(job: Job, template: Body, prefix: str, seed: int, position: int) -> CreateObject:
    reference = controller_reference(job, JOBS)
    name = name_with_suffix(prefix, seed, position)
    return pod_from_template(template, reference, job.metadata.namespace, prefix, name)


def _failure_counts(job: Job, former: Pod | None) -> dict[str, str]:
    """The failure counts that a pod inherits from the one it replaces."""
    if former is None:
        return {FAILURE_COUNT: "0"}
    is_counted = failure_outcome(job.spec.pod_failure_policy, former).is_counted
    n_ignored = ignored_failure_count(former) + (not is_counted)
    annotations = {FAILURE_COUNT: str(failure_count(former) + is_counted)}
    return {**annotations, IGNORED_FAILURE_COUNT: str(n_ignored)} if n_ignored else annotations


def _with_index_variable(container: Body) -> Body:
    env = container.get("env") or []
    if any(variable.get("name") == INDEX_VARIABLE for variable in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*env, {"name": INDEX_VARIABLE, "valueFrom": source}]}
