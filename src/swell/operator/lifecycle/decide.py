"""What to do about a job now. One story: is it over, is it ending, what is wrong with it, what
should exist, what does its status say. Everything else in this folder is a word of that story.

The status that records an intent is always written before the acts it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL, AITrainingJobStatus, Ending, Phase
from swell.api.event import EventSeverity
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body
from swell.api.times import format_time, parse_time
from swell.operator import labels
from swell.operator.lifecycle import cleanup, gang, nodes, restarts, sizes
from swell.operator.lifecycle.causes import Cause, causes, creation_deadline, creation_failure
from swell.operator.lifecycle.endings import ending, time_limit_at
from swell.operator.lifecycle.membership import (
    members_body,
    members_data,
    read_members,
    with_epoch,
)
from swell.operator.lifecycle.phases import active, living_phase
from swell.operator.lifecycle.pods import owner_reference, pod_bodies, service_body
from swell.operator.lifecycle.reasons import Reason
from swell.operator.lifecycle.status import counted, counts_only, difference, in_phase
from swell.operator.lifecycle.world import (
    World,
    current,
    is_restarting,
    is_surplus,
    missing,
)
from swell.runtime.plan import (
    Action,
    CreateObject,
    EmitEvent,
    PatchStatus,
    Plan,
    Step,
    patch_object,
)

COUNT_EVERY_S = 5.0


def decide(world: World, now: float) -> Plan:
    """The plan for one job at one moment."""
    meta, status = world.job.metadata, world.job.status
    if meta.deletion_timestamp is not None:
        return cleanup.plan_deletion(world, now)
    if status.phase in FINAL:
        return _after_the_end(world, status, now)
    if labels.FINALIZER not in meta.finalizers:
        body = {"metadata": {"finalizers": [*meta.finalizers, labels.FINALIZER]}}
        version = meta.resource_version
        return Plan((patch_object(AI_TRAINING_JOBS, meta.key, meta.uid, body, version=version),))
    if status.ending is not None:
        return _go_on_ending(world, status, status.ending, now)
    if world.problems:
        return _refuse(world, status, now)
    return _live(world, _started(world, status, now), now)


def _live(world: World, status: AITrainingJobStatus, now: float) -> Plan:
    """A job that is to run: look for endings, then for restarts, then build what is missing."""
    members = read_members(world.members, world)
    status = sizes.with_targets(world, status, members.sizes if members else None, now)
    verdict = restarts.judge(causes(world, status, now), world, status)
    end = ending(world, status, verdict.final, now)
    if end is not None:
        return _go_on_ending(world, replace(status, ending=end), end, now)
    if restarts.may_begin(verdict.curable, world, status):
        status = restarts.begin(verdict.curable, world, status, now)
    elif status.restart and restarts.is_done(world, status, active(world, status)):
        status = replace(status, restart=None)
    status = with_epoch(status, members)
    phase = living_phase(world, status)
    reason, message = _explained(world, status, phase, verdict.curable)
    status = counted(world, status)
    status = in_phase(world, status, phase, reason=reason, message=message, now=now)
    steps = [*_status_step(world, status, now), *_events(world, status)]
    steps += _build(world, status, verdict.final, now)
    return Plan(tuple(steps), wake_at=_wake(world, status, now), reasons=(reason,))


def _started(world: World, status: AITrainingJobStatus, now: float) -> AITrainingJobStatus:
    if status.phase is not Phase.EMPTY:
        return status
    return replace(
        status,
        target_replicas={**sizes.initial_targets(world), **status.target_replicas},
        start_time=status.start_time or format_time(now),
        epoch=max(status.epoch, 1),
    )


def _refuse(world: World, status: AITrainingJobStatus, now: float) -> Plan:
    """The spec breaks rules that the API server did not check: say so, and create nothing."""
    end = Ending(
        phase=Phase.FAILED,
        reason=Reason.INVALID.value,
        message="; ".join(world.problems),
        decided_at=format_time(now),
    )
    return _go_on_ending(world, replace(status, ending=end), end, now)


def _go_on_ending(world: World, status: AITrainingJobStatus, end: Ending, now: float) -> Plan:
    """Delete what the ending deletes; when that is gone, the job is over."""
    recorded = world.job.status.ending is not None
    over = recorded and cleanup.is_cleaned(world, end)
    phase = end.phase if over else Phase.TERMINATING
    status = counted(world, replace(status, restart=None))
    status = in_phase(world, status, phase, reason=end.reason, message=end.message, now=now)
    acts = [] if over else cleanup.end_actions(world, end, now)
    steps = [*_status_step(world, status, now), *_events(world, status), *cleanup.together(acts)]
    return Plan(
        tuple(steps),
        wake_at=cleanup.fence_deadline(world.replicas, world, now),
        reasons=(end.reason,),
    )


def _after_the_end(world: World, status: AITrainingJobStatus, now: float) -> Plan:
    """Nothing changes any more; whatever turned up late goes the way the ending said."""
    end = status.ending
    if end is None or cleanup.is_cleaned(world, end):
        return Plan()
    acts = cleanup.end_actions(world, end, now)
    at = cleanup.fence_deadline(world.replicas, world, now)
    return Plan(cleanup.together(acts), wake_at=at)


def _build(
    world: World, status: AITrainingJobStatus, final: tuple[Cause, ...], now: float
) -> list[Step]:
    """Make what exists what the status says should exist."""
    owner = owner_reference(world)
    doomed = [
        one for one in world.replicas if is_restarting(one, status) or is_surplus(one, status)
    ]
    gone = frozenset(one.name for one in doomed if is_surplus(one, status))
    steps: list[Step] = [*_first_opinion(world, status, now)]
    steps += _group_steps(world, status, final, owner)
    steps += _members_steps(world, status, owner)
    steps += cleanup.together(
        [*cleanup.delete_pods(doomed, world, now), *cleanup.delete_services(world, gone)]
    )
    if not _must_wait(world, status, now):
        wanted = list(missing(world, status))
        steps += cleanup.together(_service_steps(world, status))
        steps += cleanup.together(
            [CreateObject(PODS, body) for body in pod_bodies(world, status, wanted, now)]
        )
    return steps


def _first_opinion(world: World, status: AITrainingJobStatus, now: float) -> list[Step]:
    """Before anything is created, ask the API server what it thinks of a pod of each role."""
    if world.job.status.phase is not Phase.EMPTY or world.pods:
        return []
    firsts = [(role, 0) for role in world.roles]
    return [
        CreateObject(PODS, body, dry_run=True) for body in pod_bodies(world, status, firsts, now)
    ]


def _group_steps(
    world: World, status: AITrainingJobStatus, final: tuple[Cause, ...], owner: Body
) -> list[Step]:
    if not (world.settings.gang and world.gang_served):
        return []
    spec = gang.group_spec(world, status, final)
    if world.group is None:
        return [CreateObject(POD_GROUPS, gang.group_body(world, spec, owner))]
    change = gang.group_change(world, spec)
    meta = world.group.metadata
    return [patch_object(POD_GROUPS, meta.key, meta.uid, {"spec": change})] if change else []


def _members_steps(world: World, status: AITrainingJobStatus, owner: Body) -> list[Step]:
    held = world.members
    if held is None:
        return [CreateObject(CONFIG_MAPS, members_body(world, status, owner))]
    data = members_data(world, status)
    if data == held.data:
        return []
    stale: Body = {name: None for name in held.data if name not in data}
    meta = held.metadata
    return [patch_object(CONFIG_MAPS, meta.key, meta.uid, {"data": {**data, **stale}})]


def _service_steps(world: World, status: AITrainingJobStatus) -> list[Action]:
    held = {service.metadata.name for service in world.services}
    return [
        CreateObject(SERVICES, service_body(world, role, index))
        for role in world.roles
        for index in range(status.target_replicas.get(role, 0))
        if labels.pod_name(world.job.metadata.name, role, index) not in held
    ]


def _must_wait(world: World, status: AITrainingJobStatus, now: float) -> bool:
    """Whether a restart holds back new pods: old ones are there, or it is not yet time."""
    if any(is_restarting(one, status) for one in world.replicas):
        return True
    restart = status.restart
    return bool(restart and restart.not_before and parse_time(restart.not_before) > now)


def _explained(
    world: World, status: AITrainingJobStatus, phase: Phase, curable: tuple[Cause, ...]
) -> tuple[str, str]:
    """Reason and message of a living phase."""
    if world.refused is not None:
        return Reason.POD_REFUSED.value, f"{world.refused.what}: {world.refused.message}"
    for one in current(world, status):
        if failure := creation_failure(one):
            return Reason.CREATION_FAILED.value, f"pod {one.name}: {failure}"
    if status.restart is not None:
        news = curable[0] if curable and status.restart is not world.job.status.restart else None
        if news is not None:
            return news.reason.value, news.message
        return world.job.status.reason, world.job.status.message
    if phase is Phase.PENDING:
        return Reason.WAITING_FOR_ROOM.value, _waiting(world)
    if phase is Phase.CREATING:
        return Reason.CONTAINERS_STARTING.value, ""
    return f"TrainingJob{phase.value}", ""


def _waiting(world: World) -> str:
    """What the scheduler says about the group."""
    conditions = world.group.status.conditions if world.group else ()
    for condition in conditions:
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.message
    return ""


def _status_step(world: World, status: AITrainingJobStatus, now: float) -> list[Step]:
    """Write what differs. Mere numbers are written only from time to time."""
    change = difference(world.job, status)
    if not change or (counts_only(change) and now < _count_again_at(world)):
        return []
    meta = world.job.metadata
    change["lastReconcileTime"] = format_time(now)
    return [PatchStatus(AI_TRAINING_JOBS, meta.key, meta.resource_version, change)]


def _count_again_at(world: World) -> float:
    last = world.job.status.last_reconcile_time
    return parse_time(last) + COUNT_EVERY_S if last else 0.0


def _events(world: World, status: AITrainingJobStatus) -> Iterable[Step]:
    """One event for each thing that is news in this status."""
    old, meta = world.job.status, world.job.metadata
    if old.phase is Phase.EMPTY and world.job.spec.priority and not world.priority_class_found:
        text = f"PriorityClass {world.job.spec.priority} does not exist; pods get no priority"
        yield _event(world, EventSeverity.WARNING, Reason.PRIORITY_CLASS_MISSING.value, text)
    if old.phase is Phase.EMPTY and world.settings.gang and not world.gang_served:
        text = "the cluster has no PodGroup kind; pods are scheduled one by one"
        yield _event(world, EventSeverity.WARNING, Reason.GANG_NOT_SERVED.value, text)
    if status.phase is not old.phase:
        bad = status.phase in FINAL and status.phase is not Phase.SUCCEED
        severity = EventSeverity.WARNING if bad else EventSeverity.NORMAL
        text = status.message or f"{meta.name} is {status.phase.value}"
        yield _event(world, severity, f"TrainingJob{status.phase.value}", text)
    for record in status.scale_records:
        if record not in old.scale_records:
            text = f"{record.role}: {record.from_} to {record.to}: {record.reason}"
            yield _event(world, EventSeverity.NORMAL, Reason.RESIZED.value, text)


def _event(world: World, severity: EventSeverity, reason: str, message: str) -> EmitEvent:
    meta = world.job.metadata
    return EmitEvent(AI_TRAINING_JOBS, meta.key, meta.uid, severity, reason, message)


def _wake(world: World, status: AITrainingJobStatus, now: float) -> float | None:
    """When something may have to be done though nothing happens."""
    times = [time_limit_at(world, status), cleanup.fence_deadline(world.replicas, world, now)]
    if status.restart is not None and status.restart.not_before:
        times.append(parse_time(status.restart.not_before))
    for one in current(world, status):
        times += [nodes.will_be_lost_at(one, world), creation_deadline(one, world)]
    if counts_only(difference(world.job, status)):
        times.append(_count_again_at(world))
    return min((at for at in times if at is not None and at > now), default=None)
