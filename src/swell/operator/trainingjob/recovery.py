"""Rebuilds what is missing or untrue in a TrainingJob's status from the job's objects. Pure.

Where each part of a lost status is found again:

    phase           the mark on a job that has ended; else Creating, from where the decision goes on
    suspension      begun, if the trainers' Job is leaving or trainers it must keep were asked to go
    trainer_target  the size of the trainer Job; without one, that in the ConfigMap of addresses
    startTime       the latest start of a trainer's container, once all trainers run
    released        judged anew in every pass after the end

The records of resizes cannot be known again; a condition says so.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from swell.api.codec import to_body
from swell.api.trainingjob import FINAL_PHASES, TrainingJobStatus
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.api.wording import count_of
from swell.operator.framework.recovery import (
    DAMAGED,
    LOST,
    is_count,
    is_time,
    latest_start,
    read_mark,
    recovered_condition,
    sound_time,
    sound_training,
)
from swell.operator.framework.status import status_change
from swell.operator.trainingjob import departures, labels, sizes, suspension
from swell.operator.trainingjob.addresses import published_size
from swell.operator.trainingjob.endings import get_status
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot, completion_index, is_leaving

_UNKNOWN = (
    "not known any more: the records of resizes; startTime is the latest start of a trainer's"
    " container"
)
_END_UNKNOWN = "the status was lost after the trainers had been released; the end is not known"


def recovered(snapshot: TrainingJobSnapshot, now: float) -> TrainingJobSnapshot:
    """The snapshot with a status that agrees with the objects: the same one if it did already.

    A final phase is left alone, because it never changes.
    """
    held = snapshot.job.status
    is_lost = _is_lost(snapshot)
    status = _ended(snapshot, _sound(held))
    if is_lost and status.phase is Phase.EMPTY:
        status = _begun(snapshot, status, now)
    if is_lost and status.suspension is None and _is_being_suspended(snapshot):
        status = suspension.begun(status, now)
    if status.phase not in FINAL_PHASES and status.phase is not Phase.EMPTY:
        status = _with_target(snapshot, status)
    if held.phase in {Phase.RUNNING, Phase.SCALING} or is_lost:
        status = _with_start(snapshot, status)
    if status == held and snapshot.stored_status is None:
        return snapshot
    changed = ", ".join(sorted(status_change(held, status)))
    message = f"the status was damaged; replaced: {changed or 'what could not be read'}"
    if is_lost:
        pods = count_of(len(snapshot.pods), "pod")
        message = f"the status was lost and is rebuilt from {pods}; {_UNKNOWN}"
    conditions = recovered_condition(LOST if is_lost else DAMAGED, message, status.conditions, now)
    return dataclasses.replace(
        snapshot,
        job=replace(snapshot.job, status=replace(status, conditions=conditions)),
        stored_status=to_body(held) if snapshot.stored_status is None else snapshot.stored_status,
    )


def _is_lost(snapshot: TrainingJobSnapshot) -> bool:
    """Whether the job began before, although its status has no phase."""
    status = snapshot.job.status
    if status.phase is not Phase.EMPTY:
        return False
    return bool(
        snapshot.trainer
        or snapshot.replica_sets
        or snapshot.pods
        or snapshot.group
        or snapshot.addresses
        or snapshot.members
        or status.start_time
        or read_mark(snapshot.job.metadata, labels.ENDING)
    )


def _sound(status: TrainingJobStatus) -> TrainingJobStatus:
    """The status without values that no operator writes."""
    target = status.trainer_target
    # Nothing looks at a released job again, so one that has not ended must not count as such.
    is_released = status.released and status.phase in FINAL_PHASES
    return replace(
        status,
        trainer_target=target if target is None or is_count(target) else None,
        scale_records=tuple(one for one in status.scale_records if is_time(one.time)),
        start_time=sound_time(status.start_time),
        released=is_released,
        training=sound_training(status.training),
    )


def _ended(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> TrainingJobStatus:
    """The status with the end that the job is marked with, whatever phase it was given since."""
    mark = read_mark(snapshot.job.metadata, labels.ENDING)
    phase = next((one for one in FINAL_PHASES if mark and one.value == mark.phase), None)
    if mark is None or phase is None or status.phase in FINAL_PHASES:
        return status
    return replace(status, phase=phase, reason=mark.message)


def _begun(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    """The lost status of a job that began before and is not known to have ended."""
    trainer = snapshot.trainer
    if trainer is not None and not trainer.spec.parallelism:
        # Only the release at an end sets it to 0. Earlier releases of Swell left no mark.
        end = get_status(snapshot, status, now)
        phase, reason = (end.phase, end.reason) if end else (Phase.FAILED, _END_UNKNOWN)
        return replace(status, phase=phase, reason=reason)
    return replace(status, phase=Phase.CREATING)


def _is_being_suspended(snapshot: TrainingJobSnapshot) -> bool:
    """Whether a suspension has begun that the status does not tell of any more.

    Only a suspension deletes a living job's Job, or asks trainers to leave that a shrink keeps.
    """
    job, least = snapshot.trainer, snapshot.job.spec.trainer_minimum
    if job is None or is_leaving(job.metadata):
        return job is not None
    asked = (completion_index(pod) for pod in snapshot.trainers if departures.was_asked(pod))
    return any(index is not None and index < least for index in asked)


def _with_target(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> TrainingJobStatus:
    """The status with the size that the trainers have, if it lacks one."""
    trainer = snapshot.trainer
    if status.trainer_target is not None:
        return status
    spec = snapshot.job.spec
    size = trainer.spec.completions if trainer is not None else None
    published = min(published_size(snapshot.addresses) or 0, spec.trainer_maximum)
    return replace(status, trainer_target=size or published or spec.trainer_minimum)


def _with_start(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> TrainingJobStatus:
    if status.start_time is not None or not sizes.job_total_running(snapshot):
        return status
    return replace(status, start_time=latest_start(snapshot.trainers))
