"""Gives back what a job holds: trainers first, then pservers and master; and deletes it all.

Workloads are sized to nothing before their pods are deleted, or they would make new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import ObjectMeta
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.operator.framework.fencing import fenced_at, is_fenced
from swell.operator.trainingjob import labels
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.world import World, is_finished, is_leaving, is_over
from swell.runtime.plan import (
    NOTHING,
    DeleteObject,
    PatchObject,
    Plan,
    Step,
    Together,
    patch_object,
)

# The owner goes when what it owns has gone.
_FOREGROUND = "Foreground"


@dataclass(frozen=True, slots=True)
class Release:
    """What is to be done now; released is a job for which nothing is left to do or to wait for."""

    steps: tuple[Step, ...] = ()
    is_done: bool = False


def release(world: World) -> Release:
    """Trainers go first: they need the others until their end."""
    steps = release_trainer(world)
    if steps or not _is_trainer_released(world):
        return Release(tuple(steps))
    steps = release_master_roles(world)
    if steps or not all(_is_released(world, role) for role in (Role.PSERVER, Role.MASTER)):
        return Release(tuple(steps))
    return Release(is_done=True)


def release_trainer(world: World) -> list[Step]:
    """Set the parallelism to 0, and delete the pods the Job itself does not give up."""
    job, steps = world.trainer, list[Step]()
    if job is not None and job.spec.parallelism and not is_leaving(job.metadata):
        meta = job.metadata
        steps.append(patch_object(JOBS, meta.key, meta.uid, {"spec": {"parallelism": 0}}))
    pods = world.pods_of(Role.TRAINER)
    if job is not None and not is_over(job):
        # Its active pods the Job deletes, and counts them as given up instead of failed.
        active = {pod.metadata.uid for pod in world.trainers if not is_finished(pod)}
        pods = tuple(pod for pod in pods if pod.metadata.uid not in active)
    return steps + _deletions(pods)


def release_master_roles(world: World) -> list[Step]:
    return [*release_resource(world, Role.PSERVER), *release_resource(world, Role.MASTER)]


def release_resource(world: World, role: Role) -> list[Step]:
    """Set the replicas to 0 and delete the pods."""
    held, steps = world.replica_sets.get(role), list[Step]()
    if held is not None and held.spec.replicas and not is_leaving(held.metadata):
        meta = held.metadata
        steps.append(patch_object(REPLICA_SETS, meta.key, meta.uid, {"spec": {"replicas": 0}}))
    return steps + _deletions(world.pods_of(role))


def drop_stuck(world: World, now: float) -> list[Step]:
    """Drop records of pods that are to go, on nodes that certainly do not run them any more."""
    doomed = tuple(
        DeleteObject(PODS, pod.metadata.key, pod.metadata.uid, grace_s=0)
        for pod in world.pods
        if is_leaving(pod.metadata)
        and is_fenced(pod, world.nodes, world.settings.node_fence_after_s, now)
    )
    return [Together(doomed)] if doomed else []


def fence_deadline(world: World, now: float) -> float | None:
    """When a leaving pod's node will count as fenced: the time to look again."""
    patience_s = world.settings.node_fence_after_s
    leaving = (pod for pod in world.pods if is_leaving(pod.metadata))
    times = (fenced_at(pod, world.nodes, patience_s, now) for pod in leaving)
    return min((at for at in times if at is not None and at > now), default=None)


def delete_training_job(world: World, now: float) -> Plan:
    """The job is being deleted: release, delete what is owned, then let the job go."""
    meta = world.job.metadata
    if labels.FINALIZER not in meta.finalizers:
        return NOTHING
    released = release(world)
    if not released.is_done:
        steps = (*released.steps, *drop_stuck(world, now))
        return Plan(steps, wake_at=fence_deadline(world, now))
    owned = list(_owned(world))
    if owned:
        return Plan(tuple(_deletion(*one) for one in owned if not is_leaving(one[1])))
    rest = [name for name in meta.finalizers if name != labels.FINALIZER]
    return Plan((set_finalizers(meta, rest),), needs_consistent_read=True)


def delete_group(world: World) -> list[Step]:
    """The group we made: a job that is over must not ask for room."""
    group = world.group
    if group is None or is_leaving(group.metadata):
        return []
    return [_deletion(POD_GROUPS, group.metadata)]


def set_finalizers(meta: ObjectMeta, finalizers: list[str]) -> PatchObject:
    body = {"metadata": {"finalizers": finalizers}}
    return patch_object(TRAINING_JOBS, meta.key, meta.uid, body, version=meta.resource_version)


def _owned(world: World) -> Iterable[tuple[Resource[object], ObjectMeta]]:
    for role in (Role.MASTER, Role.PSERVER):
        held = world.replica_sets.get(role)
        if held is not None:
            yield REPLICA_SETS, held.metadata
    if world.trainer is not None:
        yield JOBS, world.trainer.metadata
    if world.group is not None:
        yield POD_GROUPS, world.group.metadata


def _deletion(resource: Resource[object], meta: ObjectMeta) -> DeleteObject:
    return DeleteObject(resource, meta.key, meta.uid, propagation=_FOREGROUND)


def _deletions(pods: Iterable[Pod]) -> list[Step]:
    doomed = tuple(
        DeleteObject(PODS, pod.metadata.key, pod.metadata.uid)
        for pod in pods
        if not is_leaving(pod.metadata)
    )
    return [Together(doomed)] if doomed else []


def _is_trainer_released(world: World) -> bool:
    """Also by what the Job says: it may know of a pod that we have not heard of yet."""
    job = world.trainer
    says_so = job is None or is_leaving(job.metadata) or not job.status.terminating
    has_none = job is None or is_over(job) or not job.status.active
    return says_so and has_none and not _left(world, Role.TRAINER)


def _is_released(world: World, role: Role) -> bool:
    if _left(world, role):
        return False
    held = world.replica_sets.get(role)
    if held is None or is_leaving(held.metadata):
        return True
    said = held.status
    is_current = said.observed_generation >= held.metadata.generation
    return is_current and not said.replicas and not said.terminating_replicas


def _left(world: World, role: Role) -> list[Pod]:
    """The pods there are. One that has ended and been deleted holds nothing any more: its Job
    keeps the record of a failed trainer for a successor that is not to come."""
    pods = world.pods_of(role)
    return [pod for pod in pods if not (is_finished(pod) and is_leaving(pod.metadata))]
