"""What to do about a job now. One story: is it over, is it ending, what is wrong with it, what
should exist, what does its status say. Everything else in this folder is a word of that story.

The status that records an intent is always written before the acts it stands for.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase, AITrainingJobStatus, Ending
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob import cleanup, labels, nodes, restarts, sizes
from swell.operator.aitrainingjob.building import build
from swell.operator.aitrainingjob.causes import (
    Cause,
    Kind,
    causes,
    creation_deadline,
    creation_failure,
)
from swell.operator.aitrainingjob.endings import MESSAGE_MAX, ending, time_limit_at
from swell.operator.aitrainingjob.events import events
from swell.operator.aitrainingjob.membership import read_members, with_epoch
from swell.operator.aitrainingjob.phases import active, living_phase
from swell.operator.aitrainingjob.reasons import Reason
from swell.operator.aitrainingjob.reporting import Report, report
from swell.operator.aitrainingjob.status import counted, in_phase
from swell.operator.aitrainingjob.world import World, current
from swell.runtime.plan import Plan, patch_object


def decide(world: World, now: float) -> Plan:
    """The plan for one job at one moment."""
    meta, status = world.job.metadata, world.job.status
    if meta.deletion_timestamp is not None:
        return cleanup.plan_deletion(world, now)
    if status.phase in FINAL_PHASES:
        return _after_the_end(world, status, now)
    if labels.FINALIZER not in meta.finalizers:
        body = {"metadata": {"finalizers": [*meta.finalizers, labels.FINALIZER]}}
        version = meta.resource_version
        return Plan((patch_object(AI_TRAINING_JOBS, meta.key, meta.uid, body, version=version),))
    if status.ending is not None:
        return _go_on_ending(world, status, status.ending, now)
    if problems := _problems(world):
        return _refuse(world, status, problems, now)
    return _live(world, _started(world, status, now), now)


def _live(world: World, status: AITrainingJobStatus, now: float) -> Plan:
    """A job that is to run: look for endings, then for restarts, then build what is missing."""
    members = read_members(world.members, world)
    status = sizes.with_targets(world, status, members.sizes if members else None, now)
    verdict = restarts.judge(causes(world, status, now), world, status)
    end = ending(world, status, verdict.final, now)
    if end is not None:
        return _go_on_ending(world, replace(status, ending=end), end, now)
    begun: Cause | None = None
    if restarts.may_begin(verdict.curable, world, status):
        begun = verdict.curable[0]
        status = restarts.begin(verdict.curable, world, status, now)
    elif status.restart and restarts.is_done(world, status, active(world, status)):
        status = replace(status, restart=None)
    if begun is None:
        status = with_epoch(world, status, members)
    phase = living_phase(world, status)
    reason, message = _explained(world, status, phase, begun)
    status = counted(world, status)
    status = in_phase(world, status, phase, reason=reason, message=message, now=now)
    written = report(world, status, now)
    return Plan(
        (
            *written.steps,
            *events(world, status, begun),
            *build(world, status, verdict.final, now, is_told=not written.is_late),
        ),
        wake_at=_wake(world, status, written, now),
        reasons=(reason,),
        needs_consistent_read=begun is not None and begun.kind is Kind.GONE,
    )


def _started(world: World, status: AITrainingJobStatus, now: float) -> AITrainingJobStatus:
    if status.phase is not AITrainingJobPhase.EMPTY:
        return status
    return replace(
        status,
        target_replicas={**sizes.initial_targets(world), **status.target_replicas},
        start_time=status.start_time or format_time(now),
        epoch=max(status.epoch, 1),
    )


def _problems(world: World) -> list[str]:
    """What speaks against beginning. A job that has begun goes on with what it has."""
    if world.job.status.phase is not AITrainingJobPhase.EMPTY:
        return []
    return [text for text in (*world.problems, sizes.problem(world)) if text]


def _refuse(world: World, status: AITrainingJobStatus, problems: list[str], now: float) -> Plan:
    """The spec breaks rules that the API server did not check: say so, and create nothing."""
    end = Ending(
        phase=AITrainingJobPhase.FAILED,
        reason=Reason.INVALID.value,
        message="; ".join(problems)[:MESSAGE_MAX],
        decided_at=format_time(now),
    )
    return _go_on_ending(world, replace(status, ending=end), end, now)


def _go_on_ending(world: World, status: AITrainingJobStatus, end: Ending, now: float) -> Plan:
    """Delete what the ending deletes; when that is gone, the job is over.

    A job that never began has nothing to delete, and ends at once. Its pods are counted for the
    last time when the ending is recorded: how they ended is what people want to see afterwards.
    """
    recorded = world.job.status.ending is not None or status.phase is AITrainingJobPhase.EMPTY
    over = recorded and cleanup.is_cleaned(world, end)
    phase = end.phase if over else AITrainingJobPhase.TERMINATING
    status = replace(status, restart=None)
    if world.job.status.ending is None:
        status = counted(world, status)
    status = in_phase(world, status, phase, reason=end.reason, message=end.message, now=now)
    written = report(world, status, now)
    acts = [] if over else cleanup.end_actions(world, end, now)
    return Plan(
        (*written.steps, *events(world, status), *cleanup.together(acts)),
        wake_at=_soonest(
            [cleanup.fence_deadline(world.everything, world, now), written.again_at], now
        ),
        reasons=(end.reason,),
    )


def _after_the_end(world: World, status: AITrainingJobStatus, now: float) -> Plan:
    """Nothing changes any more; whatever turned up late goes the way the ending said."""
    seen = replace(status, observed_generation=world.job.metadata.generation)
    steps = report(world, seen, now).steps
    end = status.ending
    if end is None or cleanup.is_cleaned(world, end):
        return Plan(steps)
    acts = cleanup.end_actions(world, end, now)
    at = cleanup.fence_deadline(world.everything, world, now)
    return Plan((*steps, *cleanup.together(acts)), wake_at=at)


def _explained(
    world: World, status: AITrainingJobStatus, phase: AITrainingJobPhase, begun: Cause | None
) -> tuple[str, str]:
    """Reason and message of a living phase."""
    if begun is not None:
        return begun.reason.value, begun.message
    if world.refused is not None:
        return Reason.REFUSED.value, f"{world.refused.what}: {world.refused.message}"
    for one in current(world, status):
        if failure := creation_failure(one):
            return Reason.CREATION_FAILED.value, f"pod {one.name}: {failure}"
    if status.restart is not None:
        return world.job.status.reason, world.job.status.message
    if phase is AITrainingJobPhase.PENDING:
        return Reason.WAITING_FOR_ROOM.value, _waiting(world)
    if phase is AITrainingJobPhase.CREATING:
        return Reason.CONTAINERS_STARTING.value, ""
    return f"TrainingJob{phase.value}", ""


def _waiting(world: World) -> str:
    """What the scheduler says about the group."""
    conditions = world.group.status.conditions if world.group else ()
    for condition in conditions:
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.message
    return ""


def _wake(world: World, status: AITrainingJobStatus, written: Report, now: float) -> float | None:
    """When something may have to be done though nothing happens."""
    times = [
        time_limit_at(world, status),
        cleanup.fence_deadline(world.everything, world, now),
        written.again_at,
    ]
    if status.restart is not None and status.restart.not_before:
        times.append(parse_time(status.restart.not_before))
    for one in current(world, status):
        times += [nodes.will_be_lost_at(one, world), creation_deadline(one, world)]
    return _soonest(times, now)


def _soonest(times: list[float | None], now: float) -> float | None:
    return min((at for at in times if at is not None and at > now), default=None)
