"""What people are told about a job: one event for each thing that is news in a status."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.core import EventSeverity
from swell.api.kinds import TRAINING_JOBS
from swell.api.trainingjob import FINAL_PHASES, TrainingJobPhase, TrainingJobStatus
from swell.operator.trainingjob.world import World
from swell.runtime.plan import EmitEvent

_NORMAL, _WARNING = EventSeverity.NORMAL, EventSeverity.WARNING


def events(world: World, status: TrainingJobStatus) -> Iterator[EmitEvent]:
    """Events for a status that is about to be written."""
    old = world.job.status
    if old.phase is TrainingJobPhase.EMPTY:
        yield from _at_birth(world)
    if status.phase is not old.phase:
        is_bad = status.phase in {TrainingJobPhase.FAILED, TrainingJobPhase.TIMEOUT}
        text = status.reason or f"{world.job.metadata.name} is {status.phase.value}"
        yield _event(
            world, f"TrainingJob{status.phase.value}", text, _WARNING if is_bad else _NORMAL
        )
        if status.phase in FINAL_PHASES and world.trainer and not world.settings.autoclean:
            yield _event(world, "PodsKept", "the job is over; its pods are kept", _NORMAL)
    if status.released and not old.released:
        yield _event(world, "Released", "the pods of all roles are gone", _NORMAL)
    for record in status.scale_records:
        if record not in old.scale_records and record.result:
            text = f"trainers: {record.from_} to {record.to}: {record.result}: {record.reason}"
            yield _event(world, "Scaled", text, _NORMAL)
    if world.refused is not None and old.reason != refusal_text(world):
        yield _event(world, "ObjectRefused", refusal_text(world), _WARNING)


def refusal_text(world: World) -> str:
    return f"{world.refused.what}: {world.refused.message}" if world.refused else ""


def _at_birth(world: World) -> Iterator[EmitEvent]:
    priority = world.job.spec.annotations.priority
    if priority and not world.priority_class_found:
        text = f"PriorityClass {priority} does not exist; pods get no priority"
        yield _event(world, "PriorityClassMissing", text, _WARNING)
    if world.settings.gang and not world.gang_served:
        text = "the cluster has no PodGroup kind; pods are scheduled one by one"
        yield _event(world, "GangNotServed", text, _WARNING)


def _event(world: World, reason: str, message: str, severity: EventSeverity) -> EmitEvent:
    meta = world.job.metadata
    return EmitEvent(TRAINING_JOBS, meta.key, meta.uid, severity, reason, message)
