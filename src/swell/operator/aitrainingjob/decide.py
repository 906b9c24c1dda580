"""The plan for one AITrainingJob at one moment. Pure; everything else in this folder serves it.

The order of the questions: is the job being deleted, does its status agree with its objects, is it
over, is it ending, is its spec valid, is it suspended, what is wrong with its pods, what should
exist, what should its status say. A plan always writes the status that records an intent before the
actions that carry it out: an operator that dies in between finishes them from the record.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL_PHASES, AfterPolicy, AITrainingJobStatus, Ending
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob import (
    cleanup,
    instances,
    labels,
    native_gang,
    restarts,
    sizes,
    suspension,
)
from swell.operator.aitrainingjob.causes import (
    Cause,
    CauseKind,
    creation_deadline,
    creation_failure,
    find_causes,
    not_held,
    will_be_lost_at,
    with_followers,
)
from swell.operator.aitrainingjob.children import child_steps, must_be_certain
from swell.operator.aitrainingjob.departures import end_departures, next_deadline
from swell.operator.aitrainingjob.endings import (
    ending,
    ending_of_suspended,
    new_ending,
    time_limit_at,
)
from swell.operator.aitrainingjob.exclusions import avoidance_ends, exclusion_causes
from swell.operator.aitrainingjob.gpu_causes import gpu_fault_times
from swell.operator.aitrainingjob.holders import WaitingShrink, kept, waiting_shrink
from swell.operator.aitrainingjob.kueue_pods import undone_holds
from swell.operator.aitrainingjob.losses import (
    lasting_loss,
    settled_at,
    with_loss_text,
    with_losses,
)
from swell.operator.aitrainingjob.membership import read_members, with_epoch
from swell.operator.aitrainingjob.node_faults import with_faults
from swell.operator.aitrainingjob.phases import REASON_TEXT, JobReason, active, living_phase
from swell.operator.aitrainingjob.preemptions import (
    ending_by_preemption,
    still_under_way,
    with_preemptions,
)
from swell.operator.aitrainingjob.recovery import recovered
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, current
from swell.operator.aitrainingjob.status import (
    StatusWrite,
    counted,
    deadline_at,
    events,
    in_phase,
    write_status,
)
from swell.operator.aitrainingjob.stragglers import straggler_cause, with_straggler
from swell.operator.framework.children import together
from swell.operator.framework.dependencies import awaited, failed, mark_dependencies, marked, noted
from swell.operator.framework.fencing import soonest
from swell.operator.framework.native_groups import why_native_waits
from swell.operator.framework.recovery import sound_time
from swell.operator.framework.reports import newer_training
from swell.operator.framework.status import add_finalizer
from swell.operator.framework.waiting import explained_wait, wait_reason
from swell.runtime.plan import Plan


def decide(snapshot: AITrainingJobSnapshot, now: float) -> Plan:
    """The plan for one job at one moment."""
    plan, holds = _decide(snapshot, now), undone_holds(snapshot)
    return dataclasses.replace(plan, actions=(*plan.actions, *together(holds))) if holds else plan


def _decide(snapshot: AITrainingJobSnapshot, now: float) -> Plan:
    meta = snapshot.job.metadata
    if meta.deletion_timestamp is not None:
        return cleanup.plan_deletion(snapshot, now)
    snapshot = recovered(snapshot, now)
    status = snapshot.job.status
    if status.phase in FINAL_PHASES:
        return _after_the_end(snapshot, status, now)
    # The finalizer is on the job before it owns anything, so that nothing it owns can outlive it.
    if labels.FINALIZER not in meta.finalizers:
        return Plan((add_finalizer(AI_TRAINING_JOBS, meta, labels.FINALIZER),))
    if status.ending is not None:
        return _continue_ending(snapshot, status, status.ending, now)
    if problems := _problems(snapshot):
        end = new_ending(Phase.FAILED, JobReason.INVALID, "; ".join(problems), now)
        return _continue_ending(snapshot, replace(status, ending=end), end, now)
    after = snapshot.job.spec.after
    if after and status.start_time is None:
        # Also while it is suspended: one that has succeeded may be gone when the job goes on.
        marks = marked(meta, labels.AFTER)
        known = noted({**marks, **status.dependencies}, after, snapshot.after)
        if known != marks:
            return Plan((mark_dependencies(AI_TRAINING_JOBS, meta, labels.AFTER, known),))
        status = replace(status, dependencies=known)
    if status.suspension is not None:
        return _continue_suspension(snapshot, status, now)
    may_wait = status.start_time is None and not snapshot.job.wants_suspension
    if may_wait and awaited(status.dependencies, after):
        return _wait_for_jobs(snapshot, status, now)
    return _live(snapshot, _started(snapshot, status, now), now)


def _live(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float) -> Plan:
    """The plan for a job that is to run: endings first, then restarts, then missing children."""
    status = suspension.without_past_yield(snapshot, status, now)
    # The order matters: sizes decide which pods are missing or surplus, and only what is wrong
    # with the others may end or restart the job.
    members = read_members(snapshot.members, snapshot)
    status = sizes.with_targets(snapshot, status, members.sizes if members else None, now)
    # The target is recorded; what exists follows it when nothing is lost by it any more.
    targets, shrink = status.target_replicas, waiting_shrink(snapshot, status, members, now)
    status = kept(status, shrink)
    status = with_straggler(snapshot, status, now)
    found = (
        *find_causes(snapshot, status, now),
        *exclusion_causes(snapshot, status, now),
        *straggler_cause(snapshot, status, now),
    )
    causes = restarts.sort_causes(not_held(found, snapshot.mass_failure), snapshot, status)
    status = with_preemptions(snapshot, status)
    end = ending(snapshot, status, causes.final, now)
    end = end or ending_by_preemption(snapshot, status, now)
    if end is not None:
        status = with_faults(snapshot, status, causes.final, now)
        return _continue_ending(snapshot, replace(status, ending=end), end, now)
    if suspension.is_wanted(snapshot, now):
        status = replace(status, target_replicas=targets)
        return _continue_suspension(snapshot, suspension.begun(snapshot, status, now), now)
    begun: Cause | None = None
    before = status
    if restarts.may_begin(causes.curable, snapshot, status):
        first = causes.curable[0]
        every = (*causes.curable, *causes.final)
        begun = dataclasses.replace(first, message=with_followers(first, every))
        status = with_faults(snapshot, status, every, now)
        status = restarts.begin(causes.curable, snapshot, status, now)
    elif status.restart and restarts.is_done(snapshot, status, active(snapshot, status)):
        status = replace(status, restart=None)
    if begun is None:
        # A restart begins a new epoch itself.
        status = with_epoch(snapshot, status, members)
    status = still_under_way(snapshot, before, status)
    waits = restarts.must_wait(snapshot, status, now)
    status = native_gang.numbered(snapshot, status, waits=waits)
    status = with_losses(snapshot, status, begun, now)
    if begun is not None:
        begun = dataclasses.replace(begun, message=with_loss_text(begun, status))
    phase = living_phase(snapshot, status)
    reason, message = _explained(snapshot, status, phase, begun)
    message = shrink.message if shrink is not None and not message else message
    status = counted(snapshot, status)
    status = replace(status, training=newer_training(status.training, snapshot.report))
    status = in_phase(snapshot, status, phase, reason=reason, message=message, now=now)
    written = write_status(snapshot, replace(status, target_replicas=targets), now)
    steps = child_steps(snapshot, status, causes.final, now, is_written=not written.is_late)
    # That a pod is gone must be confirmed by a consistent read before it is replaced.
    is_gone = begun is not None and begun.kind is CauseKind.GONE
    return Plan(
        (*written.steps, *events(snapshot, status, begun), *steps),
        wake_at=_wake_at(snapshot, status, written, shrink, now),
        reasons=(reason,),
        needs_consistent_read=is_gone or must_be_certain(snapshot, steps),
    )


def _started(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The status of a job that begins. One that is suspended from the beginning has not."""
    if status.start_time is None and not snapshot.job.wants_suspension:
        status = replace(status, start_time=format_time(now))
    if status.phase is not Phase.EMPTY:
        return status
    return replace(
        status,
        target_replicas={**sizes.initial_targets(snapshot), **status.target_replicas},
        epoch=max(status.epoch, 1),
    )


def _wait_for_jobs(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Plan:
    """The plan for a job that comes after others: it has nothing, and waits or fails."""
    bad = failed(status.dependencies)
    end = ending_of_suspended(snapshot, now)
    if end is None and bad and snapshot.job.spec.after_policy is AfterPolicy.FAIL:
        end = new_ending(Phase.FAILED, JobReason.DEPENDENCY_FAILED, bad, now)
    if end is not None:
        return _continue_ending(snapshot, replace(status, ending=end), end, now)
    reason = JobReason.DEPENDENCY_FAILED if bad else JobReason.WAITING_FOR_JOBS
    message = bad or awaited(status.dependencies, snapshot.job.spec.after)
    status = sizes.with_targets(snapshot, status, None, now)
    status = in_phase(
        snapshot, status, Phase.PENDING, reason=reason.value, message=message, now=now
    )
    written = write_status(snapshot, status, now)
    return Plan(
        (*written.steps, *events(snapshot, status)),
        wake_at=soonest([written.again_at, deadline_at(snapshot)], now),
        reasons=(reason.value,),
    )


def _continue_suspension(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Plan:
    """Delete all pods and the group; when they are gone and the job is to go on, it begins anew."""
    if (end := ending_of_suspended(snapshot, now)) is not None:
        ended = replace(suspension.ended(status), ending=end)
        return _continue_ending(snapshot, ended, end, now)
    is_over = suspension.is_over(snapshot, now)
    if is_over:
        status = suspension.ended(status)
        # The jobs that it comes after are looked at in the next pass: it may not begin yet.
        status = status if snapshot.job.spec.after else _started(snapshot, status, now)
    reason, message = JobReason.WAITING_FOR_ROOM, REASON_TEXT[JobReason.WAITING_FOR_ROOM]
    if not is_over:
        reason, message = suspension.reason_of(snapshot)
    members = read_members(snapshot.members, snapshot)
    status = sizes.with_targets(snapshot, status, members.sizes if members else None, now)
    status = counted(snapshot, status)
    status = in_phase(
        snapshot, status, Phase.PENDING, reason=reason.value, message=message, now=now
    )
    written = write_status(snapshot, status, now)
    actions = [] if is_over else suspension.release_actions(snapshot, status, now)
    return Plan(
        (*written.steps, *events(snapshot, status), *together(actions)),
        wake_at=soonest(
            [
                cleanup.fence_deadline_of(snapshot, now),
                written.again_at,
                next_deadline(snapshot, now),
                deadline_at(snapshot),
                suspension.yields_until(status),
            ],
            now,
        ),
        reasons=(reason.value,),
        # A pod of before that a stale cache does not show must not be taken for one of after.
        needs_consistent_read=is_over,
    )


def _problems(snapshot: AITrainingJobSnapshot) -> list[str]:
    """The problems of the spec that the API server did not check.

    Only a new job is refused for them. A job that runs goes on with what it has.
    """
    status = snapshot.job.status
    is_held = status.suspension is not None and status.start_time is None
    if status.phase is not Phase.EMPTY and not is_held:
        return []
    own = (sizes.problem(snapshot), instances.problem(snapshot))
    return [text for text in (*snapshot.problems, *own) if text]


def _continue_ending(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, end: Ending, now: float
) -> Plan:
    """Delete what the ending deletes; when that is gone, the job is over.

    A job that never began has nothing to delete, and ends at once. Its pods are counted for the
    last time when the ending is recorded, because users want to see afterwards how they ended.
    """
    # The pods that prove the ending go next, so it is marked where no write of the status reaches.
    mark = cleanup.mark_as_ending(snapshot, status, end)
    is_marked = snapshot.job.status.ending is not None and not mark
    over = (is_marked or status.phase is Phase.EMPTY) and cleanup.is_cleaned(snapshot, end)
    phase = end.phase if over else Phase.TERMINATING
    status = replace(status, restart=None)
    if snapshot.job.status.ending is None:
        status = counted(snapshot, status)
    status = in_phase(snapshot, status, phase, reason=end.reason, message=end.message, now=now)
    written = write_status(snapshot, status, now)
    actions = [] if over else end_departures(snapshot, status, end, now)
    fenced_at, due_at = cleanup.fence_deadline_of(snapshot, now), next_deadline(snapshot, now)
    return Plan(
        (*written.steps, *(() if over else mark), *events(snapshot, status), *together(actions)),
        wake_at=soonest([fenced_at, due_at, written.again_at], now),
        reasons=(end.reason,),
    )


def _after_the_end(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Plan:
    """A final phase never changes. Children that turn up late are deleted as the ending says."""
    # Users may have removed the record; the phase and the policy say what is deleted all the same.
    at = format_time(now)
    end = status.ending or Ending(status.phase, status.reason, status.message, at)
    seen = replace(status, observed_generation=snapshot.job.metadata.generation)
    if snapshot.job.spec.ttl_seconds_after_finished is not None:
        # It expires by what is on record, so that is written anew.
        seen = replace(seen, ending=end, end_time=sound_time(status.end_time) or at)
    steps = write_status(snapshot, seen, now).steps
    if cleanup.is_cleaned(snapshot, end):
        return cleanup.plan_expiry(snapshot, steps, now)
    actions = cleanup.end_actions(snapshot, end, now)
    return Plan((*steps, *together(actions)), wake_at=cleanup.fence_deadline_of(snapshot, now))


def _explained(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    phase: Phase,
    begun: Cause | None,
) -> tuple[str, str]:
    """Reason and message of a living phase."""
    lost = lasting_loss(status)
    if begun is not None and (lost is None or begun.kind is not CauseKind.GONE):
        return begun.reason.value, begun.message
    if snapshot.refused:
        return JobReason.REFUSED.value, snapshot.refused
    for one in current(snapshot, status):
        if failure := creation_failure(one):
            return JobReason.CREATION_FAILED.value, f"pod {one.name}: {failure}"
    if lost is not None and phase is not Phase.RUNNING:
        return explained_wait(lost, snapshot.group)
    if status.restart is not None:
        return snapshot.job.status.reason, snapshot.job.status.message
    if phase is Phase.PENDING:
        reason, message = wait_reason(snapshot.group)
        return reason or JobReason.WAITING_FOR_ROOM.value, message or why_native_waits(
            snapshot.native_groups
        )
    if phase is Phase.CREATING:
        return JobReason.CONTAINERS_STARTING.value, ""
    return f"TrainingJob{phase.value}", lost.message if lost is not None else ""


def _wake_at(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    written: StatusWrite,
    shrink: WaitingShrink | None,
    now: float,
) -> float | None:
    """When the job must be looked at again even if no object changes."""
    times = [
        time_limit_at(snapshot, status),
        cleanup.fence_deadline_of(snapshot, now),
        written.again_at,
        shrink.until if shrink is not None else None,
        next_deadline(snapshot, now),
        deadline_at(snapshot),
        settled_at(status),
        snapshot.no_pods_before,
        *avoidance_ends(snapshot),
        snapshot.mass_failure.until if snapshot.mass_failure is not None else None,
    ]
    if status.restart is not None and status.restart.not_before:
        times.append(parse_time(status.restart.not_before))
    for one in current(snapshot, status):
        times += [will_be_lost_at(one, snapshot), creation_deadline(one, snapshot)]
        times += gpu_fault_times(one, snapshot)
    return soonest(times, now)
