"""Puts together the status a job should show, and the write that makes it so."""

from __future__ import annotations

from msgspec.structs import replace

from swell.api import codec
from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Body, Condition
from swell.api.times import format_time
from swell.api.trainingjob import FINAL_PHASES, RoleStatus, TrainingJobPhase, TrainingJobStatus
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.phases import advance
from swell.operator.trainingjob.world import World
from swell.runtime.plan import PatchStatus, Step

REASON_MAX = 4096


def in_phase(
    world: World, status: TrainingJobStatus, phase: TrainingJobPhase, reason: str, now: float
) -> TrainingJobStatus:
    """The status in a phase, with times, numbers and conditions to match."""
    advance(status.phase, phase)
    at = format_time(now)
    began = at if phase is TrainingJobPhase.RUNNING else None
    status = replace(
        status,
        phase=phase,
        reason=reason[:REASON_MAX],
        start_time=status.start_time or began,
        observed_generation=world.job.metadata.generation,
        replica_statuses=_counted(world, status),
    )
    return replace(status, conditions=_conditions(status, at))


def update_status(world: World, status: TrainingJobStatus) -> list[Step]:
    """Write what differs, provided the job is still the one this was computed from."""
    change = _difference(codec.to_body(world.job.status), codec.to_body(status))
    if not change:
        return []
    meta = world.job.metadata
    return [PatchStatus(TRAINING_JOBS, meta.key, meta.resource_version, change)]


def _counted(world: World, status: TrainingJobStatus) -> dict[str, RoleStatus]:
    """As the workloads count their pods. What is released keeps the last numbers."""
    counted = dict(status.replica_statuses)
    for role, held in world.replica_sets.items():
        counted[role.value] = RoleStatus(
            active=held.status.replicas, ready=held.status.ready_replicas
        )
    if world.trainer is not None:
        held_by_job = world.trainer.status
        counted[Role.TRAINER.value] = RoleStatus(
            active=held_by_job.active,
            ready=held_by_job.ready or 0,
            succeeded=held_by_job.succeeded,
            failed=held_by_job.failed,
        )
    return counted


def _conditions(status: TrainingJobStatus, at: str) -> tuple[Condition, ...]:
    is_up = status.phase in {TrainingJobPhase.RUNNING, TrainingJobPhase.SCALING}
    holding = {"Ready": is_up, "Completed": status.phase in FINAL_PHASES}
    former = {c.type: c for c in status.conditions}
    made: list[Condition] = []
    for kind, holds in holding.items():
        state, old = "True" if holds else "False", former.get(kind)
        since = old.last_transition_time if old and old.status == state else at
        made.append(
            Condition(
                type=kind, status=state, reason=status.phase.value, last_transition_time=since
            )
        )
    return tuple(made)


def _difference(old: Body, new: Body) -> Body:
    """A merge patch from one body to another."""
    change: Body = {name: None for name in old if name not in new}
    for name, value in new.items():
        held = old.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            inner = _difference(held, value)
            if inner:
                change[name] = inner
        elif value != held:
            change[name] = value
    return change
