"""Puts together the status a job should show, and the patch that makes it so."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from swell.api import codec
from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    AITrainingJobPhase,
    AITrainingJobStatus,
    PhaseRecord,
    ReplicaStatus,
)
from swell.api.meta import Body, Condition
from swell.api.pod import PodPhase
from swell.api.times import format_time
from swell.operator.aitrainingjob.endings import MESSAGE_MAX
from swell.operator.aitrainingjob.phases import active, advance, bound
from swell.operator.aitrainingjob.world import (
    Replica,
    World,
    is_restarting,
    is_surplus,
)

HISTORY_MAX = 20


def counted(world: World, status: AITrainingJobStatus) -> AITrainingJobStatus:
    """The status with the pods of each role counted, every one in one place."""
    counts = {role: dict[str, int]() for role in world.roles}
    for one in world.replicas:
        if not is_surplus(one, status):
            held = counts[one.role]
            name = _state(one, status)
            held[name] = held.get(name, 0) + 1
    n_active = len(active(world, status))
    n_target = sum(status.target_replicas.values())
    return replace(
        status,
        replica_statuses={role: ReplicaStatus(**held) for role, held in counts.items()},
        ready=f"{n_active}/{n_target}",
    )


def in_phase(
    world: World,
    status: AITrainingJobStatus,
    phase: AITrainingJobPhase,
    *,
    reason: str,
    message: str,
    now: float,
) -> AITrainingJobStatus:
    """The status in a phase, with history, times and conditions to match."""
    advance(status.phase, phase)
    message = message[:MESSAGE_MAX]
    at = format_time(now)
    if phase is not status.phase:
        record = PhaseRecord(phase=phase, time=at, message=message)
        history = (*status.phase_history, record)[-HISTORY_MAX:]
        status = replace(status, phase=phase, phase_history=history)
    if phase is AITrainingJobPhase.RUNNING and status.start_running_time is None:
        status = replace(status, start_running_time=at)
    if phase in FINAL_PHASES and status.end_time is None:
        status = replace(status, end_time=at)
    status = replace(
        status,
        reason=reason,
        message=message,
        observed_generation=world.job.metadata.generation,
    )
    return replace(status, conditions=_conditions(world, status, at))


def difference(job: AITrainingJob, status: AITrainingJobStatus) -> Body:
    """A merge patch from the job's status to another one; empty when they are equal."""
    return _merge(codec.to_body(job.status), codec.to_body(status))


def may_be_late(change: Body) -> bool:
    """Whether a change is of what people may as well learn a little later."""
    return set(change) <= {"replicaStatuses", "ready", "message"}


def n_finished(status: AITrainingJobStatus) -> int:
    """How many pods have succeeded or failed, by the status's own count."""
    return sum(held.succeeded + held.failed for held in status.replica_statuses.values())


def _state(replica: Replica, status: AITrainingJobStatus) -> str:
    if is_restarting(replica, status):
        return "restarting"
    if replica.phase is PodPhase.SUCCEEDED:
        return "succeeded"
    if replica.phase is PodPhase.FAILED:
        return "failed"
    if replica.phase is PodPhase.RUNNING and not replica.is_leaving:
        return "active"
    return "scheduled" if replica.is_bound else "pending"


def _conditions(world: World, status: AITrainingJobStatus, at: str) -> tuple[Condition, ...]:
    """One entry for each phase ever entered, and three that stand for questions people ask."""
    entered = {AITrainingJobPhase(c.type): None for c in status.conditions if c.type in _PHASES}
    entered[status.phase] = None
    wanted = [_phase_condition(phase, status, status.conditions) for phase in entered]
    gang = {role: spec.gang_minimum for role, spec in world.roles.items()}
    have = [role for role, _ in bound(world, status)]
    scheduled = all(have.count(role) >= n for role, n in gang.items())
    if status.ending is not None:  # the pods that were scheduled are going
        scheduled = _was_true("Scheduled", status.conditions)
    wanted += [
        _condition("Scheduled", scheduled, "Scheduled" if scheduled else "NotScheduled"),
        _condition("Ready", status.phase is AITrainingJobPhase.RUNNING, status.phase.value),
        _condition("Completed", status.phase in FINAL_PHASES, status.phase.value),
    ]
    return tuple(_dated(condition, status.conditions, at) for condition in wanted)


_PHASES = frozenset(phase.value for phase in AITrainingJobPhase if phase.value)


def _phase_condition(
    phase: AITrainingJobPhase, status: AITrainingJobStatus, old: Iterable[Condition]
) -> Condition:
    """It keeps the message with which the phase was entered; later ones are in the status."""
    holds = phase is status.phase
    former = next((c for c in old if c.type == phase.value), None)
    entered = holds and (former is None or former.status != "True")
    return Condition(
        type=phase.value,
        status="True" if holds else "False",
        reason=f"TrainingJob{phase.value}",
        message=status.message if entered or former is None else former.message,
    )


def _condition(kind: str, holds: bool, reason: str) -> Condition:
    return Condition(type=kind, status="True" if holds else "False", reason=reason)


def _was_true(kind: str, conditions: Iterable[Condition]) -> bool:
    return any(c.type == kind and c.status == "True" for c in conditions)


def _dated(condition: Condition, old: Iterable[Condition], at: str) -> Condition:
    """A condition keeps its date for as long as it does not change sides."""
    for former in old:
        if former.type == condition.type and former.status == condition.status:
            return replace(condition, last_transition_time=former.last_transition_time)
    return replace(condition, last_transition_time=at)


def _merge(old: Body, new: Body) -> Body:
    change: Body = {name: None for name in old if name not in new}
    for name, value in new.items():
        held = old.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            inner = _merge(held, value)
            if inner:
                change[name] = inner
        elif value != held:
            change[name] = value
    return change
