"""What TrainingJobs that are gone have left behind. By UID alone: a namesake owns none of it."""

from __future__ import annotations

from collections.abc import Container, Sequence

from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import ObjectMeta, OwnerReference, Uid
from swell.api.resource import Resource
from swell.operator.framework.orphans import Labelled, Litter, is_kind
from swell.operator.trainingjob.labels import JOB_UID
from swell.runtime.plan import DeleteObject

# A Job's pods would stay behind by default.
_BACKGROUND = "Background"
_WORKLOADS: tuple[Resource[object], ...] = (REPLICA_SETS, JOBS)


def clean_orphans(found: Sequence[Labelled], jobs: Container[Uid]) -> list[DeleteObject]:
    """Delete what belongs to a job, or a pod whose workload and job, do not exist.

    The workloads are among what was found, and were read after the pods: all carry the label.
    """
    names = {str(resource) for resource in _WORKLOADS}
    workloads = {one.metadata.uid for one in found if str(one.resource) in names}
    return [
        DeleteObject(one.resource, meta.key, meta.uid, propagation=_BACKGROUND)
        for one in found
        if (meta := one.metadata).deletion_timestamp is None
        and (owner := meta.controller) is not None
        and _is_orphan(one.resource, meta, owner, workloads, jobs)
    ]


def _is_orphan(
    resource: Resource[object],
    meta: ObjectMeta,
    owner: OwnerReference,
    workloads: Container[Uid],
    jobs: Container[Uid],
) -> bool:
    job = meta.labels.get(JOB_UID)
    if not job or Uid(job) in jobs:
        return False
    if str(resource) != str(PODS):
        return is_kind(owner, TRAINING_JOBS) and owner.uid not in jobs
    is_ours = any(is_kind(owner, workload) for workload in _WORKLOADS)
    return is_ours and owner.uid not in workloads


LITTER = Litter(TRAINING_JOBS, (PODS, *_WORKLOADS, POD_GROUPS), JOB_UID, clean_orphans, _WORKLOADS)
