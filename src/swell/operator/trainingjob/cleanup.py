"""Deletes the pods of a job that is over, and everything of a job that is being deleted.

Trainers are released first, because they need the pservers and the master until their end. A
workload is scaled to 0 before its pods are deleted, or it would create new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api.kinds import (
    CONFIG_MAPS,
    JOBS,
    NATIVE_GROUPS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    TRAINING_JOBS,
)
from swell.api.meta import ObjectMeta
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.times import has_passed, parse_time
from swell.api.trainingjob import FINAL_PHASES, TrainingJobStatus
from swell.operator.framework.children import together
from swell.operator.framework.fencing import drop_record, fence_deadline, is_fenced
from swell.operator.framework.recovery import EndingMark, mark_ending, sound_time
from swell.operator.framework.status import RECORD_LOOK_S, JobEvents, remove_finalizer
from swell.operator.framework.training import delete_secret
from swell.operator.trainingjob import labels
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    is_finished,
    is_leaving,
    is_over,
)
from swell.runtime.plan import (
    NOTHING,
    DeleteObject,
    PatchObject,
    Plan,
    Step,
    patch_object,
)

# Kubernetes removes the owner when its dependents are gone.
_FOREGROUND = "Foreground"
# The condition that tells when a job ended, and the event of one whose time after that is up.
COMPLETED, EXPIRED = "Completed", "Expired"


@dataclass(frozen=True, slots=True)
class Release:
    """The next steps of a release; it is done when nothing is left to do or to wait for."""

    steps: tuple[Step, ...] = ()
    is_done: bool = False


def release(snapshot: TrainingJobSnapshot) -> Release:
    """The next steps: trainers first, then pservers and master."""
    steps = release_trainer(snapshot)
    if steps or not _is_trainer_released(snapshot):
        return Release(tuple(steps))
    steps = release_master_roles(snapshot)
    if steps or not all(_is_released(snapshot, role) for role in (Role.PSERVER, Role.MASTER)):
        return Release(tuple(steps))
    return Release(is_done=True)


def release_trainer(snapshot: TrainingJobSnapshot) -> list[Step]:
    """Set the parallelism to 0, and delete the pods that the Job itself will not delete."""
    job, steps = snapshot.trainer, list[Step]()
    if job is not None and job.spec.parallelism and not is_leaving(job.metadata):
        meta = job.metadata
        steps.append(patch_object(JOBS, meta.key, meta.uid, {"spec": {"parallelism": 0}}))
    pods = snapshot.pods_of(Role.TRAINER)
    if job is not None and not is_over(job):
        # The Job deletes its active pods itself, and does not count them as failed.
        active = {pod.metadata.uid for pod in snapshot.trainers if not is_finished(pod)}
        pods = tuple(pod for pod in pods if pod.metadata.uid not in active)
    return steps + _deletions(pods)


def release_master_roles(snapshot: TrainingJobSnapshot) -> list[Step]:
    """Release the pservers and the master, after the trainers."""
    return [*release_resource(snapshot, Role.PSERVER), *release_resource(snapshot, Role.MASTER)]


def release_resource(snapshot: TrainingJobSnapshot, role: Role) -> list[Step]:
    """Set the replicas of a ReplicaSet to 0, and delete its pods."""
    held, steps = snapshot.replica_sets.get(role), list[Step]()
    if held is not None and held.spec.replicas and not is_leaving(held.metadata):
        meta = held.metadata
        steps.append(patch_object(REPLICA_SETS, meta.key, meta.uid, {"spec": {"replicas": 0}}))
    return steps + _deletions(snapshot.pods_of(role))


def mark_as_ended(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> list[PatchObject]:
    """Put the end on the job itself as well, from where a lost status is rebuilt."""
    mark = EndingMark(phase=status.phase.value, reason="", message=status.reason)
    return mark_ending(TRAINING_JOBS, snapshot.job.metadata, labels.ENDING, mark)


def drop_stuck(snapshot: TrainingJobSnapshot, now: float) -> list[Step]:
    """Drop the records of leaving pods on fenced nodes."""
    to_drop = [
        drop_record(pod)
        for pod in snapshot.pods
        if is_leaving(pod.metadata)
        and is_fenced(pod, snapshot.nodes, snapshot.settings.node_fence_after_s, now)
    ]
    return [*together(to_drop)]


def fence_deadline_of(snapshot: TrainingJobSnapshot, now: float) -> float | None:
    """When the next of the job's leaving pods will count as fenced: the time to look again."""
    return fence_deadline(snapshot.pods, snapshot.nodes, snapshot.settings.node_fence_after_s, now)


def delete_training_job(snapshot: TrainingJobSnapshot, now: float) -> Plan:
    """The plan for a job that is being deleted: release, then children, then the finalizer."""
    meta = snapshot.job.metadata
    if labels.FINALIZER not in meta.finalizers:
        return NOTHING
    released = release(snapshot)
    if not released.is_done:
        steps = (*released.steps, *drop_stuck(snapshot, now))
        return Plan(steps, wake_at=fence_deadline_of(snapshot, now))
    owned = list(_owned(snapshot))
    if owned:
        # It cannot be seen whether the secret is there. It goes with the members ConfigMap.
        secret = [delete_secret(meta)] if snapshot.members is not None else []
        deletions = [deletion(*one) for one in owned if not is_leaving(one[1])]
        return Plan((*secret, *deletions) if deletions else ())
    if not snapshot.is_recorded:
        # Nothing could be said of the job once its object is gone.
        return Plan(wake_at=now + RECORD_LOOK_S)
    # Without the finalizer nothing would look for a child that a stale cache does not show.
    last = remove_finalizer(TRAINING_JOBS, meta, labels.FINALIZER)
    return Plan((last,), needs_consistent_read=True)


def plan_expiry(snapshot: TrainingJobSnapshot, steps: tuple[Step, ...], now: float) -> Plan:
    """The plan for a job that has ended: `steps`, and its deletion once its time has come.

    It is deleted in the very state that was decided on: ended, with a record of when that was.
    """
    meta, status = snapshot.job.metadata, snapshot.job.status
    ttl_s = snapshot.job.spec.ttl_seconds_after_finished
    times = (one.last_transition_time for one in status.conditions if one.type == COMPLETED)
    ended = sound_time(next(times, None))
    is_kept = ttl_s is None or status.phase not in FINAL_PHASES or snapshot.is_awaited
    if ttl_s is None or ended is None or is_kept or steps:
        return Plan(steps)
    at = parse_time(ended)
    if not has_passed(at, ttl_s, now):
        return Plan(wake_at=at + ttl_s)
    text = f"deleted {ttl_s} s after its end, as ttlSecondsAfterFinished says"
    expired = JobEvents(TRAINING_JOBS, meta).normal(EXPIRED, text)
    gone = DeleteObject(TRAINING_JOBS, meta.key, meta.uid, version=meta.resource_version)
    return Plan((expired, gone), reasons=(EXPIRED,))


def delete_group(snapshot: TrainingJobSnapshot) -> list[Step]:
    """Delete the job's group, which would go on asking the scheduler for room.

    One of Kubernetes itself stays until its pods have ended, however early it is deleted.
    """
    return [deletion(*one) for one in _groups(snapshot) if not is_leaving(one[1])]


def has_group_left(snapshot: TrainingJobSnapshot) -> bool:
    """Whether a group of the job still exists."""
    return any(True for _ in _groups(snapshot))


def _groups(snapshot: TrainingJobSnapshot) -> Iterable[tuple[Resource[object], ObjectMeta]]:
    if snapshot.group is not None:
        yield POD_GROUPS, snapshot.group.metadata
    if snapshot.native_group is not None:
        yield NATIVE_GROUPS, snapshot.native_group.metadata


def _owned(snapshot: TrainingJobSnapshot) -> Iterable[tuple[Resource[object], ObjectMeta]]:
    for role in (Role.MASTER, Role.PSERVER):
        held = snapshot.replica_sets.get(role)
        if held is not None:
            yield REPLICA_SETS, held.metadata
    if snapshot.trainer is not None:
        yield JOBS, snapshot.trainer.metadata
    yield from _groups(snapshot)
    if snapshot.addresses is not None:
        yield CONFIG_MAPS, snapshot.addresses.metadata
    if snapshot.members is not None:
        yield CONFIG_MAPS, snapshot.members.metadata


def deletion(resource: Resource[object], meta: ObjectMeta) -> DeleteObject:
    return DeleteObject(resource, meta.key, meta.uid, propagation=_FOREGROUND)


def _deletions(pods: Iterable[Pod]) -> list[Step]:
    to_delete = [
        DeleteObject(PODS, pod.metadata.key, pod.metadata.uid)
        for pod in pods
        if not is_leaving(pod.metadata)
    ]
    return [*together(to_delete)]


def _is_trainer_released(snapshot: TrainingJobSnapshot) -> bool:
    """Whether no trainer is left, by our cache and by the Job's status.

    The Job may know of a pod that our cache does not have yet.
    """
    job = snapshot.trainer
    says_so = job is None or is_leaving(job.metadata) or not job.status.terminating
    has_none = job is None or is_over(job) or not job.status.active
    return says_so and has_none and not _left(snapshot, Role.TRAINER)


def _is_released(snapshot: TrainingJobSnapshot, role: Role) -> bool:
    if _left(snapshot, role):
        return False
    held = snapshot.replica_sets.get(role)
    if held is None or is_leaving(held.metadata):
        return True
    said = held.status
    is_current = said.observed_generation >= held.metadata.generation
    return is_current and not said.replicas and not said.terminating_replicas


def _left(snapshot: TrainingJobSnapshot, role: Role) -> list[Pod]:
    """The pods of a role that exist, without those that have finished and are being deleted.

    Those hold nothing any more. Their Job keeps the record of a failed trainer until it creates
    the successor, which will not come.
    """
    pods = snapshot.pods_of(role)
    return [pod for pod in pods if not (is_finished(pod) and is_leaving(pod.metadata))]
