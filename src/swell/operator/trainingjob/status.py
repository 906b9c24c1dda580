"""The status a job should have, the write that brings it there, and the events that report it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Condition
from swell.api.times import format_time, parse_time
from swell.api.trainingjob import FINAL_PHASES, RoleStatus, TrainingJobStatus
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.operator.framework.dependencies import DEPENDENCY_FAILED, failed
from swell.operator.framework.recovery import kept_conditions, sound_time
from swell.operator.framework.status import (
    MESSAGE_MAX,
    JobEvents,
    advance,
    condition,
    dated,
    generation_marked,
    status_change,
)
from swell.operator.framework.waiting import (
    DISRUPTED,
    disrupted_condition,
    eviction_of,
    with_disruption,
)
from swell.operator.trainingjob import sizes, suspension
from swell.operator.trainingjob.cleanup import COMPLETED
from swell.operator.trainingjob.endings import is_stopped
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.phases import TRANSITIONS
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot
from swell.operator.trainingjob.suspension import RESUMED, SUSPENDED
from swell.runtime.plan import EmitEvent, PatchStatus, Plan, Step

# The reason of the event that reports a resize with its result; the metrics count it.
SCALED = "Scaled"
# The condition of a job that is not done at its deadline, and its event.
DEADLINE_MISSED = "DeadlineMissed"


def in_phase(
    snapshot: TrainingJobSnapshot,
    status: TrainingJobStatus,
    phase: Phase,
    reason: str,
    now: float,
) -> TrainingJobStatus:
    """The status in a phase, with matching times, numbers and conditions."""
    advance(TRANSITIONS, status.phase, phase)
    at = format_time(now)
    if phase is Phase.RUNNING:
        status = suspension.running_again(status, now)
    lost = disrupted_condition(status.conditions)
    conditions = (
        condition("Ready", phase in {Phase.RUNNING, Phase.SCALING}, phase.value),
        condition(COMPLETED, phase in FINAL_PHASES, phase.value),
        *_suspended(status),
        *_others(status),
        *_due(snapshot, phase, now),
    )
    return replace(
        status,
        phase=phase,
        reason=reason[:MESSAGE_MAX],
        start_time=status.start_time or (at if phase is Phase.RUNNING else None),
        observed_generation=snapshot.job.metadata.generation,
        replica_statuses=_counted(snapshot, status),
        conditions=(
            *(dated(one, status.conditions, at) for one in conditions),
            *([lost] if lost else []),
            *kept_conditions(status.conditions),
        ),
    )


def with_completion(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    """The status of a job that is over with the condition that says when, if it expires by that.

    Somebody may have removed it: then it has been over since now, as far as anybody can tell.
    """
    times = (one.last_transition_time for one in status.conditions if one.type == COMPLETED)
    if snapshot.job.spec.ttl_seconds_after_finished is None or sound_time(next(times, None)):
        return status
    others = (one for one in status.conditions if one.type != COMPLETED)
    ended = dated(condition(COMPLETED, True, status.phase.value), (), format_time(now))
    return replace(status, conditions=(*others, ended))


def _suspended(status: TrainingJobStatus) -> Iterator[Condition]:
    """The condition of a job that is suspended, or was before."""
    if status.suspension is not None:
        yield condition(SUSPENDED, True, SUSPENDED, suspension.TEXT)
    elif any(one.type == SUSPENDED for one in status.conditions):
        yield condition(SUSPENDED, False, RESUMED)


def _others(status: TrainingJobStatus) -> Iterator[Condition]:
    """The condition of a job that comes after one that did not succeed, or did not before."""
    if bad := failed(status.dependencies):
        yield condition(DEPENDENCY_FAILED, True, DEPENDENCY_FAILED, bad)
    elif any(one.type == DEPENDENCY_FAILED for one in status.conditions):
        yield condition(DEPENDENCY_FAILED, False, "WaitingForJobs")


def _due(snapshot: TrainingJobSnapshot, phase: Phase, now: float) -> Iterator[Condition]:
    """The condition of a job that was not done when it should have been."""
    due = deadline_at(snapshot)
    if due is not None and phase is not Phase.SUCCEED and due <= now:
        text = f"not done at {snapshot.job.spec.deadline}"
        yield condition(DEADLINE_MISSED, True, DEADLINE_MISSED, text)


def deadline_at(snapshot: TrainingJobSnapshot) -> float | None:
    """When the job should be done; None if it does not say, or says what is no time."""
    text = sound_time(snapshot.job.spec.deadline)
    return parse_time(text) if text else None


def with_eviction(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    """The status with the condition of its last eviction, which is over once all pods are back."""
    former = disrupted_condition(status.conditions)
    since = former.last_transition_time or "" if former is not None else ""
    is_replaced = any((pod.metadata.creation_timestamp or "") >= since for pod in snapshot.pods)
    is_over = is_replaced and sizes.job_total_running(snapshot)
    evicted = eviction_of(snapshot.group)
    found = [evicted] if evicted is not None else []
    new = with_disruption(former, found, is_over=is_over, now=now)
    if new is None or new is former:
        return status
    others = [one for one in status.conditions if one.type != DISRUPTED]
    return replace(status, conditions=(*others, new))


def update_status(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> list[Step]:
    """Write what differs, provided that the job has not changed since the snapshot."""
    stored, old = snapshot.stored_status, snapshot.job.status
    generation = status.observed_generation
    is_new = generation != old.observed_generation
    marked = generation_marked(status.conditions, old.conditions, generation, is_new=is_new)
    status = replace(status, conditions=marked)
    change = status_change(old if stored is None else stored, status)
    if not change:
        return []
    meta = snapshot.job.metadata
    return [PatchStatus(TRAINING_JOBS, meta.key, meta.resource_version, change)]


def fail_malformed(snapshot: TrainingJobSnapshot, message: str) -> Plan:
    """The plan for a malformed job: record that it failed. Its pods end as at any other end."""
    meta = snapshot.job.metadata
    phase = Phase.FAILED.value
    body = {"phase": phase, "reason": message, "observedGeneration": meta.generation}
    record = PatchStatus(TRAINING_JOBS, meta.key, meta.resource_version, body)
    return Plan((record,), reasons=(phase,))


def events(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> Iterator[EmitEvent]:
    """The events for a status that is about to be written."""
    old, priority = snapshot.job.status, snapshot.job.spec.annotations.priority
    make = JobEvents(TRAINING_JOBS, snapshot.job.metadata)
    if old.phase is Phase.EMPTY:
        yield from make.at_first(
            "" if snapshot.priority_class_found else priority,
            is_gang_missing=snapshot.settings.gang and not snapshot.gang_api,
        )
    if snapshot.stored_status is not None:
        yield from make.recovered(status.conditions)
    yield from _about_suspension(make, old, status)
    yield from _about_conditions(make, old, status)
    if status.phase is not old.phase:
        is_bad = status.phase in {Phase.FAILED, Phase.TIMEOUT}
        yield make.phase(status.phase, status.reason, is_bad=is_bad)
        keeps_pods = not snapshot.settings.autoclean and not is_stopped(snapshot)
        if status.phase in FINAL_PHASES and snapshot.trainer and keeps_pods:
            yield make.normal("PodsKept", "the job is over; its pods are kept")
    if status.released and not old.released:
        yield make.normal("Released", "the pods of all roles are gone")
    for record in status.scale_records:
        if record not in old.scale_records and record.result:
            text = f"trainers: {record.from_} to {record.to}: {record.result}: {record.reason}"
            yield make.normal(SCALED, text)
    lost, known = disrupted_condition(status.conditions), disrupted_condition(old.conditions)
    if lost is not None and lost.status == "True" and lost != known:
        yield make.warning(lost.reason, lost.message)
    if snapshot.refused and old.reason != snapshot.refused:
        yield make.warning("ObjectRefused", snapshot.refused)


def _about_conditions(
    make: JobEvents, old: TrainingJobStatus, new: TrainingJobStatus
) -> Iterator[EmitEvent]:
    """The events for what a job waits for in vain, and a deadline that it has missed."""
    held = {one.type for one in old.conditions if one.status == "True"}
    for one in new.conditions:
        is_new = one.status == "True" and one.type not in held
        if is_new and one.type in {DEADLINE_MISSED, DEPENDENCY_FAILED}:
            yield make.warning(one.reason, one.message)


def _about_suspension(
    make: JobEvents, old: TrainingJobStatus, new: TrainingJobStatus
) -> Iterator[EmitEvent]:
    if new.suspension is not None and old.suspension is None:
        yield make.normal(SUSPENDED, suspension.TEXT)
    elif new.suspension is None and old.suspension is not None:
        yield make.normal(RESUMED, "resumed: the job queues anew")


def _counted(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> dict[str, RoleStatus]:
    """The pods as the workloads count them. A workload that is gone keeps its last numbers."""
    counted = dict(status.replica_statuses)
    for role, held in snapshot.replica_sets.items():
        counted[role.value] = RoleStatus(
            active=held.status.replicas, ready=held.status.ready_replicas
        )
    if snapshot.trainer is not None:
        held_by_job = snapshot.trainer.status
        counted[Role.TRAINER.value] = RoleStatus(
            active=held_by_job.active,
            ready=held_by_job.ready or 0,
            succeeded=held_by_job.succeeded,
            failed=held_by_job.failed,
        )
    return counted
