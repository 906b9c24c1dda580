"""Which objects are deleted with pods, with an ending or with the job, and when they are gone."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.aitrainingjob import AITrainingJobStatus, CleanPodPolicy, Ending
from swell.api.codec import to_body
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, NATIVE_GROUPS, POD_GROUPS, PODS, SERVICES
from swell.api.native_groups import NativeGroup
from swell.api.times import has_passed, parse_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.endings import is_deleted_at_end, new_ending
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.framework.children import together
from swell.operator.framework.fencing import drop_record, fence_deadline, is_fenced
from swell.operator.framework.recovery import EndingMark, mark_ending, sound_time
from swell.operator.framework.status import RECORD_LOOK_S, JobEvents, remove_finalizer
from swell.operator.framework.training import delete_secret
from swell.runtime.plan import Action, DeleteObject, PatchObject, PatchStatus, Plan, Step


def delete_pods(
    replicas: Iterable[Replica],
    snapshot: AITrainingJobSnapshot,
    now: float,
    *,
    as_seen: bool = False,
) -> list[Action]:
    """Delete gracefully, once; drop the record at once only where the node is fenced.

    With `as_seen` a pod is deleted only if it has not changed since the snapshot.
    """
    actions: list[Action] = []
    for one in replicas:
        meta = one.pod.metadata
        version = meta.resource_version if as_seen else None
        if is_fenced(one.pod, snapshot.nodes, snapshot.settings.node_fence_after_s, now):
            actions.append(drop_record(one.pod, version))
        elif not one.is_leaving:
            actions.append(DeleteObject(PODS, meta.key, meta.uid, version=version))
    return actions


def fence_deadline_of(snapshot: AITrainingJobSnapshot, now: float) -> float | None:
    """When the next of the job's leaving pods will count as fenced: the time to look again."""
    return fence_deadline(snapshot.pods, snapshot.nodes, snapshot.settings.node_fence_after_s, now)


def delete_services(snapshot: AITrainingJobSnapshot, names: frozenset[str]) -> list[Action]:
    """Delete the services of these names, except those that are being deleted already."""
    return [
        DeleteObject(SERVICES, service.metadata.key, service.metadata.uid)
        for service in snapshot.services
        if service.metadata.name in names and service.metadata.deletion_timestamp is None
    ]


def end_actions(snapshot: AITrainingJobSnapshot, ending: Ending, now: float) -> list[Action]:
    """The deletes that the job's ending asks for now."""
    to_delete, kept = _divided(snapshot, ending)
    # A policy that keeps finished pods must not lose one that finishes at this moment.
    as_seen = snapshot.job.spec.clean_pod_policy is CleanPodPolicy.RUNNING
    return [
        *delete_pods(to_delete, snapshot, now, as_seen=as_seen),
        *delete_services(snapshot, _service_names(snapshot) - kept),
        *_delete_shared(snapshot),
    ]


def mark_as_ending(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, ending: Ending
) -> list[PatchObject]:
    """Put the ending on the job itself as well, from where a lost status is rebuilt."""
    mark = EndingMark(
        phase=ending.phase.value,
        reason=ending.reason,
        message=ending.message,
        decided_at=ending.decided_at,
        restart_counts=status.restart_counts,
        uncharged=status.uncharged,
    )
    return mark_ending(AI_TRAINING_JOBS, snapshot.job.metadata, labels.ENDING, mark)


def is_cleaned(snapshot: AITrainingJobSnapshot, ending: Ending) -> bool:
    """Whether everything that an ending deletes is gone."""
    to_delete, kept = _divided(snapshot, ending)
    services_gone = _service_names(snapshot) <= kept
    if _live_groups(snapshot):
        return False
    return not to_delete and services_gone and snapshot.group is None and snapshot.members is None


def plan_expiry(snapshot: AITrainingJobSnapshot, steps: tuple[Step, ...], now: float) -> Plan:
    """The plan for a job that has ended: `steps`, and its deletion once its time has come.

    It is deleted in the very state that was decided on: ended, with a record of when and how.
    """
    meta, status = snapshot.job.metadata, snapshot.job.status
    ttl_s = snapshot.job.spec.ttl_seconds_after_finished
    ended = sound_time(status.end_time)
    if ttl_s is None or ended is None or status.ending is None or steps or snapshot.is_awaited:
        return Plan(steps)
    at = parse_time(ended)
    if not has_passed(at, ttl_s, now):
        return Plan(wake_at=at + ttl_s)
    text = f"deleted {ttl_s} s after its end, as ttlSecondsAfterFinished says"
    expired = JobEvents(AI_TRAINING_JOBS, meta).normal(JobReason.EXPIRED.value, text)
    gone = DeleteObject(AI_TRAINING_JOBS, meta.key, meta.uid, version=meta.resource_version)
    return Plan((expired, gone), reasons=(JobReason.EXPIRED.value,))


def plan_deletion(snapshot: AITrainingJobSnapshot, now: float) -> Plan:
    """The plan for a job object that is being deleted: first its children, then the finalizer."""
    meta = snapshot.job.metadata
    if labels.FINALIZER not in meta.finalizers:
        return Plan()
    names = _service_names(snapshot)
    actions = [
        *delete_pods(snapshot.everything, snapshot, now),
        *delete_services(snapshot, names),
        *_delete_shared(snapshot),
    ]
    shared = snapshot.group or snapshot.members or _live_groups(snapshot)
    if snapshot.everything or names or shared:
        return Plan(together(actions), wake_at=fence_deadline_of(snapshot, now))
    if not snapshot.is_recorded:
        # Nothing could be said of the job once its object is gone.
        return Plan(wake_at=now + RECORD_LOOK_S)
    # Without the finalizer nothing would look for a child that a stale cache does not show.
    last = remove_finalizer(AI_TRAINING_JOBS, meta, labels.FINALIZER)
    return Plan((last,), needs_consistent_read=True)


def after_malformed(snapshot: AITrainingJobSnapshot, now: float) -> Plan:
    """The plan for a malformed job that has ended: its children are deleted."""
    ending = new_ending(Phase.FAILED, JobReason.INVALID, "", now)
    return Plan(together(end_actions(snapshot, ending, now)))


def fail_malformed(snapshot: AITrainingJobSnapshot, message: str, now: float) -> Plan:
    """The plan for a malformed job: record that it failed, and delete its children."""
    meta = snapshot.job.metadata
    ending = new_ending(Phase.FAILED, JobReason.INVALID, message, now)
    body = {
        "phase": ending.phase.value,
        "reason": ending.reason,
        "message": ending.message,
        "endTime": ending.decided_at,
        "observedGeneration": meta.generation,
        "ending": to_body(ending),
    }
    record = PatchStatus(AI_TRAINING_JOBS, meta.key, meta.resource_version, body)
    actions = end_actions(snapshot, ending, now)
    return Plan((record, *together(actions)), reasons=(ending.reason,))


def _delete_shared(snapshot: AITrainingJobSnapshot) -> list[Action]:
    """Delete the objects a job has one of. A PodGroup would go on asking the scheduler for room."""
    shared = ((POD_GROUPS, snapshot.group), (CONFIG_MAPS, snapshot.members))
    actions: list[Action] = [
        DeleteObject(resource, held.metadata.key, held.metadata.uid)
        for resource, held in shared
        if held is not None and held.metadata.deletion_timestamp is None
    ]
    actions += delete_native_groups(snapshot)
    # It cannot be seen whether the secret is there. It goes with the ConfigMap, which was there
    # before it; what is left of it then goes with its owner.
    if actions and snapshot.is_training:
        actions.append(delete_secret(snapshot.job.metadata))
    return actions


def delete_native_groups(snapshot: AITrainingJobSnapshot) -> list[Action]:
    return [
        DeleteObject(NATIVE_GROUPS, one.metadata.key, one.metadata.uid)
        for one in _live_groups(snapshot)
    ]


def _live_groups(snapshot: AITrainingJobSnapshot) -> list[NativeGroup]:
    """The native groups that are not being deleted.

    Nothing waits for those that are: Kubernetes keeps them for as long as a pod names them that
    has not finished, and an ending may keep such pods.
    """
    return [one for one in snapshot.native_groups if one.metadata.deletion_timestamp is None]


def _service_names(snapshot: AITrainingJobSnapshot) -> frozenset[str]:
    return frozenset(service.metadata.name for service in snapshot.services)


def _divided(
    snapshot: AITrainingJobSnapshot, ending: Ending
) -> tuple[list[Replica], frozenset[str]]:
    """The pods that an ending deletes, and the names of those that it keeps."""
    policy = snapshot.job.spec.clean_pod_policy
    to_delete: list[Replica] = []
    kept: list[str] = []
    for one in snapshot.everything:
        if is_deleted_at_end(one, ending, policy):
            to_delete.append(one)
        else:
            kept.append(one.name)
    return to_delete, frozenset(kept)
