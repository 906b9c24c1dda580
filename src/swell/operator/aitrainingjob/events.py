"""What people are told about a job: one event for each thing that is news in a status."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase, AITrainingJobStatus
from swell.api.core import EventSeverity
from swell.api.kinds import AI_TRAINING_JOBS
from swell.operator.aitrainingjob.causes import Cause
from swell.operator.aitrainingjob.reasons import Reason
from swell.operator.aitrainingjob.world import World
from swell.runtime.plan import EmitEvent


def events(
    world: World, status: AITrainingJobStatus, begun: Cause | None = None
) -> Iterator[EmitEvent]:
    """Events for a status that is about to be written, and for a restart that begins with it."""
    old, meta = world.job.status, world.job.metadata
    if old.phase is AITrainingJobPhase.EMPTY:
        yield from _at_birth(world)
    if begun is not None:
        yield _event(world, begun.reason.value, begun.message, EventSeverity.WARNING)
    if status.phase is not old.phase:
        bad = status.phase in FINAL_PHASES and status.phase is not AITrainingJobPhase.SUCCEED
        severity = EventSeverity.WARNING if bad else EventSeverity.NORMAL
        text = status.message or f"{meta.name} is {status.phase.value}"
        yield _event(world, f"TrainingJob{status.phase.value}", text, severity)
    for record in status.scale_records:
        if record not in old.scale_records:
            text = f"{record.role}: {record.from_} to {record.to}: {record.reason}"
            yield _event(world, Reason.RESIZED.value, text)
    if world.refused is not None and old.reason != Reason.REFUSED.value:
        text = f"{world.refused.what}: {world.refused.message}"
        yield _event(world, Reason.REFUSED.value, text, EventSeverity.WARNING)


def _at_birth(world: World) -> Iterator[EmitEvent]:
    priority = world.job.spec.priority
    if priority and not world.priority_class_found:
        text = f"PriorityClass {priority} does not exist; pods get no priority"
        yield _event(world, Reason.PRIORITY_CLASS_MISSING.value, text, EventSeverity.WARNING)
    if world.settings.gang and not world.gang_served:
        text = "the cluster has no PodGroup kind; pods are scheduled one by one"
        yield _event(world, Reason.GANG_NOT_SERVED.value, text, EventSeverity.WARNING)


def _event(
    world: World,
    reason: str,
    message: str,
    severity: EventSeverity = EventSeverity.NORMAL,
) -> EmitEvent:
    meta = world.job.metadata
    return EmitEvent(AI_TRAINING_JOBS, meta.key, meta.uid, severity, reason, message)
