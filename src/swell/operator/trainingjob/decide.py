"""The plan for one TrainingJob at one moment. Pure; everything else in this folder serves it.

The order of the questions: is the job being deleted, does its status agree with its objects, is it
over, has it started, is it suspended, does it end now, what should exist, what should its status
say. A plan always writes the status that records an intent before the actions that carry it out.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import AfterPolicy
from swell.api.kinds import TRAINING_JOBS
from swell.api.times import parse_time
from swell.api.trainingjob import FINAL_PHASES, TrainingJobStatus
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.operator.framework.dependencies import awaited, failed, mark_dependencies, marked, noted
from swell.operator.framework.fencing import soonest
from swell.operator.framework.native_groups import why_native_waits
from swell.operator.framework.reports import REPORT_PACE_S, newer_training, report_is_due
from swell.operator.framework.status import add_finalizer
from swell.operator.framework.waiting import disrupted_condition, explained_wait
from swell.operator.trainingjob import departures, labels, sizes, suspension
from swell.operator.trainingjob.children import create_training_job
from swell.operator.trainingjob.cleanup import (
    delete_group,
    delete_training_job,
    drop_stuck,
    fence_deadline_of,
    has_group_left,
    mark_as_ended,
    plan_expiry,
    release,
)
from swell.operator.trainingjob.endings import (
    TrainingJobEnding,
    ending_of_suspended,
    get_status,
    is_stopped,
    wall_time_at,
)
from swell.operator.trainingjob.phases import living_phase
from swell.operator.trainingjob.pods import command_problems, trace_labels_of_pods
from swell.operator.trainingjob.recovery import recovered
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot
from swell.operator.trainingjob.status import (
    deadline_at,
    events,
    in_phase,
    update_status,
    with_completion,
    with_eviction,
)
from swell.runtime.plan import DeleteSecret, Plan, Step


def decide(snapshot: TrainingJobSnapshot, now: float) -> Plan:
    """The plan for one job at one moment."""
    meta = snapshot.job.metadata
    if meta.deletion_timestamp is not None:
        return delete_training_job(snapshot, now)
    snapshot = recovered(snapshot, now)
    status = snapshot.job.status
    if status.released or status.phase in FINAL_PHASES:
        return after_the_end(snapshot, now)
    # The finalizer is on the job before it owns anything, so that nothing it owns can outlive it.
    if labels.FINALIZER not in meta.finalizers:
        return Plan((add_finalizer(TRAINING_JOBS, meta, labels.FINALIZER),))
    if status.phase is Phase.EMPTY:
        return setup(snapshot, now)
    status = _with_wishes(snapshot, status, now)
    if (mark := _new_mark(snapshot, status)) is not None:
        return mark
    if status.suspension is not None:
        return _suspended(snapshot, status, now)
    if _must_wait(snapshot, status):
        return _wait_for_jobs(snapshot, status, now)
    return _live(snapshot, status, now)


def setup(snapshot: TrainingJobSnapshot, now: float) -> Plan:
    """Start a new job with its smallest size, or fail it if its spec is invalid."""
    spec, status = snapshot.job.spec, snapshot.job.status
    problems = (*snapshot.problems, *command_problems(spec))
    if problems:
        return _end(snapshot, status, TrainingJobEnding(Phase.FAILED, "; ".join(problems)), now)
    # Stopped before it began: nothing is created for it.
    if is_stopped(snapshot) and (ending := get_status(snapshot, status, now)) is not None:
        return _end(snapshot, status, ending, now)
    status = _with_wishes(snapshot, status, now)
    if (mark := _new_mark(snapshot, status)) is not None:
        return mark
    if status.trainer_target is None:
        status = replace(status, trainer_target=spec.trainer_minimum)
    if snapshot.job.wants_suspension:
        return _suspended(snapshot, suspension.begun(status, now), now)
    if _must_wait(snapshot, status):
        return _wait_for_jobs(snapshot, status, now)
    return _continue(snapshot, suspension.ended(status), Phase.CREATING, now)


def after_the_end(snapshot: TrainingJobSnapshot, now: float) -> Plan:
    """The plan for a job that is over.

    The phase never changes. The group is deleted; with `autoclean`, or if somebody has stopped the
    job, the pods are deleted too, and then `released` is recorded: nothing is left to do.
    """
    if snapshot.job.status.released:
        status = with_completion(snapshot, snapshot.job.status, now)
        return plan_expiry(snapshot, tuple(update_status(snapshot, status)), now)
    status = replace(snapshot.job.status, observed_generation=snapshot.job.metadata.generation)
    status = with_completion(snapshot, status, now)
    steps: list[Step] = delete_group(snapshot)
    gives_back = snapshot.settings.autoclean or is_stopped(snapshot)
    if gives_back:
        released = release(snapshot)
        # Trainers that are released no longer prove how the job ended.
        steps += mark_as_ended(snapshot, status) if released.steps else []
        steps += [*released.steps, *drop_stuck(snapshot, now)]
        status = replace(status, released=released.is_done and not has_group_left(snapshot))
    steps = [*update_status(snapshot, status), *events(snapshot, status), *steps]
    if not gives_back:
        return plan_expiry(snapshot, tuple(steps), now)
    return Plan(
        tuple(steps),
        wake_at=fence_deadline_of(snapshot, now),
        # That nothing is left must be confirmed by a consistent read: nothing looks again.
        needs_consistent_read=status.released,
    )


def _with_wishes(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    """The status with the size that its user sets, and what became of the jobs before it."""
    status = sizes.with_scale(snapshot, status, now)
    after = snapshot.job.spec.after
    if snapshot.has_begun or not after:
        return status
    # Also while it is suspended: one that has succeeded may be gone when the job goes on.
    held = {**marked(snapshot.job.metadata, labels.AFTER), **status.dependencies}
    return replace(status, dependencies=noted(held, after, snapshot.after))


def _new_mark(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> Plan | None:
    """Writes what became of the jobs before it to the job; None if its mark says so already."""
    meta, known = snapshot.job.metadata, status.dependencies
    is_due = not snapshot.has_begun and bool(snapshot.job.spec.after)
    if not is_due or marked(meta, labels.AFTER) == known:
        return None
    return Plan((mark_dependencies(TRAINING_JOBS, meta, labels.AFTER, known),))


def _must_wait(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> bool:
    """Whether jobs that this one comes after have not succeeded yet."""
    if snapshot.has_begun or snapshot.job.wants_suspension:
        return False
    return bool(awaited(status.dependencies, snapshot.job.spec.after))


def _wait_for_jobs(snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float) -> Plan:
    """The plan for a job that comes after others: it has nothing, and waits or fails."""
    spec, bad = snapshot.job.spec, failed(status.dependencies)
    ending = ending_of_suspended(snapshot)
    if ending is None and bad and spec.after_policy is AfterPolicy.FAIL:
        ending = TrainingJobEnding(Phase.FAILED, bad)
    if ending is not None:
        return _end(snapshot, status, ending, now)
    reason = bad or awaited(status.dependencies, spec.after)
    status = in_phase(snapshot, status, Phase.CREATING, reason, now)
    return Plan(
        (*update_status(snapshot, status), *events(snapshot, status)),
        wake_at=soonest([deadline_at(snapshot)], now),
        reasons=(Phase.CREATING.value,),
    )


def _live(snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float) -> Plan:
    phase = living_phase(snapshot, status)
    # A job that is complete when it is first seen running has to be recorded as Running first.
    begins = phase is not status.phase and status.phase is Phase.CREATING
    ending = None if begins else get_status(snapshot, status, now)
    if ending is not None:
        last = newer_training(status.training, snapshot.report)
        return _end(snapshot, replace(status, training=last), ending, now)
    if snapshot.job.wants_suspension:
        return _suspended(snapshot, suspension.begun(status, now), now)
    # The resize of this very pass goes by the new phase: a job that begins to run may grow.
    in_new_phase = replace(status, phase=phase)
    if sizes.must_scale(snapshot, in_new_phase):
        recorded = sizes.with_record(snapshot, in_new_phase, now)
        status = replace(status, scale_records=recorded.scale_records)
    elif phase is Phase.RUNNING and sizes.holds(snapshot, status):
        status = sizes.with_result(status, sizes.SUCCEEDED)
    return _continue(snapshot, status, phase, now)


def _continue(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, phase: Phase, now: float
) -> Plan:
    status, report_at = _with_report(snapshot, with_eviction(snapshot, status, now), now)
    status = in_phase(snapshot, status, phase, _waiting_for(snapshot, status, phase), now)
    is_up = phase in {Phase.RUNNING, Phase.SCALING}
    children = create_training_job(snapshot, status, now)
    return Plan(
        (
            *update_status(snapshot, status),
            *events(snapshot, status),
            *children,
            *departures.resize(snapshot, status, now),
            *(trace_labels_of_pods(snapshot) if is_up else ()),
        ),
        wake_at=soonest(
            [
                wall_time_at(snapshot, status),
                departures.next_deadline(snapshot, now),
                report_at,
                deadline_at(snapshot),
            ],
            now,
        ),
        reasons=(phase.value,),
        # A secret that is in use must not be replaced.
        needs_consistent_read=any(isinstance(step, DeleteSecret) for step in children),
    )


def _suspended(snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float) -> Plan:
    """Delete what the job has; when that is gone and the job is to go on, it begins anew."""
    if (ending := ending_of_suspended(snapshot)) is not None:
        return _end(snapshot, suspension.ended(status), ending, now)
    is_over = suspension.is_over(snapshot)
    status = suspension.ended(status) if is_over else status
    reason = "" if is_over else suspension.TEXT
    status = in_phase(snapshot, status, Phase.CREATING, reason, now)
    steps = [] if is_over else suspension.release_steps(snapshot, now)
    return Plan(
        (*update_status(snapshot, status), *events(snapshot, status), *steps),
        wake_at=soonest(
            [
                fence_deadline_of(snapshot, now),
                departures.next_deadline(snapshot, now),
                deadline_at(snapshot),
            ],
            now,
        ),
        reasons=(Phase.CREATING.value,),
        # A pod of before that a stale cache does not show must not be taken for one of after.
        needs_consistent_read=is_over,
    )


def _with_report(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> tuple[TrainingJobStatus, float | None]:
    """The status with the newest report, at most six times a minute; else when that is due."""
    held = status.training
    new = newer_training(held, snapshot.report)
    if held is None or new == held or report_is_due(held, now):
        return replace(status, training=new), None
    return status, parse_time(held.reported_at) + REPORT_PACE_S


def _end(
    snapshot: TrainingJobSnapshot,
    status: TrainingJobStatus,
    ending: TrainingJobEnding,
    now: float,
) -> Plan:
    """Record the end. What it deletes is deleted in the next pass, from the record."""
    status = sizes.with_result(status, sizes.INTERRUPTED)
    status = in_phase(snapshot, status, ending.phase, ending.reason, now)
    # A job without a trainer never began, and would be refused again for the same reasons.
    mark = mark_as_ended(snapshot, status) if snapshot.trainer is not None else []
    return Plan(
        (*update_status(snapshot, status), *mark, *events(snapshot, status)),
        reasons=(ending.phase.value,),
    )


def _waiting_for(snapshot: TrainingJobSnapshot, status: TrainingJobStatus, phase: Phase) -> str:
    """The reason why a living job does not get on, if one is known; empty otherwise."""
    if snapshot.refused:
        return snapshot.refused
    lost = disrupted_condition(status.conditions)
    if phase is Phase.CREATING or (lost is not None and lost.status == "True"):
        waits = why_native_waits([snapshot.native_group] if snapshot.native_group else [])
        return explained_wait(lost, snapshot.group)[1] or waits
    return ""
