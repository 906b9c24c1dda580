"""What jobs that are gone have left behind. By UID alone: a namesake owns none of it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from swell.api.kinds import JOBS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import ObjectMeta, OwnerReference, Uid
from swell.api.resource import Resource
from swell.operator.trainingjob.labels import JOB_UID
from swell.runtime.plan import DeleteObject

# A Job's pods would stay behind by default.
_BACKGROUND = "Background"


@dataclass(frozen=True, slots=True)
class Labelled:
    """An object that carries the UID of a job as a label."""

    resource: Resource[object]
    metadata: ObjectMeta


def clean_orphans(
    found: Iterable[Labelled], workloads: Container[Uid], jobs: Container[Uid]
) -> list[DeleteObject]:
    """Delete what belongs to a job, or a pod whose workload and job, do not exist.

    `workloads` must have been read after the pods and `jobs` after the workloads: then what lacks
    its owner has outlived it, and is not merely newer than the list.
    """
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
        return _is_kind(owner, TRAINING_JOBS) and owner.uid not in jobs
    is_ours = _is_kind(owner, REPLICA_SETS) or _is_kind(owner, JOBS)
    return is_ours and owner.uid not in workloads


def _is_kind(owner: OwnerReference, resource: Resource[object]) -> bool:
    group = owner.api_version.partition("/")[0]
    return owner.kind == resource.kind and group == resource.group
