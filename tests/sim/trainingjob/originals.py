"""What the original controller left behind, and the rules about it.

Its objects carry a role's label with the name of their job, and no owner. Others use such labels,
too: those have an owner, and are nobody's orphans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.kinds import CONFIG_MAPS, JOBS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.resource import Resource
from swell.cluster.embedded.storage import Commit
from swell.operator.framework.orphans import OnlyMetadata
from swell.operator.trainingjob.labels import JOB_UID, ROLE_LABELS, Role
from swell.sim.observation import NAMESPACE
from swell.sim.world import SimulatedWorld

ORIGINAL = "original"
KINDS: tuple[Resource[object], ...] = (PODS, REPLICA_SETS, JOBS)
_ROLES = {str(REPLICA_SETS): Role.PSERVER, str(JOBS): Role.TRAINER}


async def leave_behind(world: SimulatedWorld, job: str, *, owned: bool = False) -> None:
    """Create the workloads of a job as the original controller did; or as a stranger's."""
    cluster, owners = world.connect(ORIGINAL), list[Body]()
    if owned:
        meta = {"name": "stranger", "namespace": NAMESPACE}
        made = await cluster.create(CONFIG_MAPS, {"metadata": meta})
        named = {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "name": "stranger"}
        owners = [{**named, "uid": made.metadata.uid}]
    for resource in (REPLICA_SETS.untyped(), JOBS.untyped()):
        await cluster.create(resource, _workload(resource, job, owners))


def _workload(resource: Resource[Body], job: str, owners: list[Body]) -> Body:
    role = _ROLES[str(resource)]
    labels = {ROLE_LABELS[role]: job}
    # Without replicas: what becomes of its pods is the matter of the cluster's own controllers.
    size: Body = {"replicas": 0} if role is Role.PSERVER else {"parallelism": 0}
    container = {"name": role.value, "image": "sim"}
    restart = "Always" if role is Role.PSERVER else "Never"
    spec: Body = {
        **size,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "restartPolicy": restart},
        },
    }
    if role is Role.TRAINER:
        spec["manualSelector"] = True
    who = "stranger" if owners else "original"
    meta: Body = {
        "name": f"{job}-{who}-{role.value}",
        "namespace": NAMESPACE,
        "labels": labels,
        "ownerReferences": owners,
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "spec": spec,
    }


def original_job(meta: ObjectMeta) -> str:
    """The job that an object of the original controller belongs to; empty for any other object."""
    if JOB_UID in meta.labels:
        return ""
    return next((meta.labels[label] for label in ROLE_LABELS.values() if label in meta.labels), "")


@dataclass
class OriginalsKept:
    """Collected is only what has no owner and no job, and only where that was asked for."""

    world: SimulatedWorld
    is_adopting: bool
    name: str = "originals kept"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.before is None or not self.world.is_subject(commit.actor):
            return
        if commit.collection not in map(str, KINDS):
            return
        before = commit.before.typed(OnlyMetadata).metadata
        after = commit.after.typed(OnlyMetadata).metadata if commit.after else None
        is_deleted = after is None or after.deletion_timestamp is not None
        job = original_job(before)
        if not job or not is_deleted or before.deletion_timestamp is not None:
            return
        if not self.is_adopting:
            yield f"{commit.collection} {commit.key} deleted, which nobody asked for"
        elif before.owner_references:
            yield f"{commit.collection} {commit.key} deleted, which is somebody else's"
        # A job that is created later than the list of jobs is not known yet.
        elif self.world.storage.get(str(TRAINING_JOBS), Key(commit.key.namespace, job)) is not None:
            yield f"{commit.collection} {commit.key} deleted, whose job {job} is there"


@dataclass
class OriginalsCollected:
    """Where that was asked for, nothing without owner and job stays."""

    world: SimulatedWorld
    is_adopting: bool
    name: str = "originals collected"

    def missing(self) -> Iterator[str]:
        for resource in KINDS if self.is_adopting else ():
            for key, stored in self.world.storage.list(str(resource)).items:
                meta = stored.typed(OnlyMetadata).metadata
                job = original_job(meta)
                is_there = self.world.storage.get(str(TRAINING_JOBS), Key(key.namespace, job))
                if job and not meta.owner_references and is_there is None:
                    yield f"{resource} {key} is still there"
