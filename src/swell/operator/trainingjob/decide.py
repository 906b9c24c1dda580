"""What to do about a TrainingJob now. One story: is it going, is it over, has it begun, does it
end, what should exist, what does its status say.

The status that records an intent is always written before the acts it stands for.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.trainingjob import FINAL_PHASES, TrainingJobPhase, TrainingJobStatus
from swell.operator.trainingjob import labels, scaling
from swell.operator.trainingjob.creation import create_training_job
from swell.operator.trainingjob.endings import Ending, get_status, wall_time_at
from swell.operator.trainingjob.events import events, refusal_text
from swell.operator.trainingjob.indexing import trace_labels_of_pods
from swell.operator.trainingjob.phases import living_phase
from swell.operator.trainingjob.podspec import command_problems
from swell.operator.trainingjob.release import (
    delete_group,
    delete_training_job,
    drop_stuck,
    fence_deadline,
    release,
    set_finalizers,
)
from swell.operator.trainingjob.status import in_phase, update_status
from swell.operator.trainingjob.world import World
from swell.runtime.plan import NOTHING, Plan, Step


def reconcile(world: World, now: float) -> Plan:
    """The plan for one job at one moment."""
    meta, status = world.job.metadata, world.job.status
    if meta.deletion_timestamp is not None:
        return delete_training_job(world, now)
    if status.released:
        return NOTHING
    if status.phase in FINAL_PHASES:
        return after_the_end(world, now)
    if labels.FINALIZER not in meta.finalizers:
        return Plan((set_finalizers(meta, [*meta.finalizers, labels.FINALIZER]),))
    if status.phase is TrainingJobPhase.EMPTY:
        return setup(world, now)
    return _live(world, status, now)


def setup(world: World, now: float) -> Plan:
    """A job begins: with its smallest size, or not at all if its spec makes no sense."""
    spec, status = world.job.spec, world.job.status
    problems = (*world.problems, *command_problems(spec))
    if problems:
        return _end(world, status, Ending(TrainingJobPhase.FAILED, "; ".join(problems)), now)
    if status.trainer_target is None:
        status = replace(status, trainer_target=spec.trainer_minimum)
    return _go_on(world, status, TrainingJobPhase.CREATING, now)


def after_the_end(world: World, now: float) -> Plan:
    """The phase stays. The group goes; with autoclean so do the pods, and then that is recorded."""
    status = replace(world.job.status, observed_generation=world.job.metadata.generation)
    acts: list[Step] = delete_group(world)
    if world.settings.autoclean:
        released = release(world)
        acts += [*released.steps, *drop_stuck(world, now)]
        status = replace(status, released=released.is_done and world.group is None)
    return Plan(
        (*update_status(world, status), *events(world, status), *acts),
        wake_at=fence_deadline(world, now) if world.settings.autoclean else None,
        needs_consistent_read=status.released,
    )


def _live(world: World, status: TrainingJobStatus, now: float) -> Plan:
    phase = living_phase(world, status)
    # A job that is done when it is first seen complete was running nevertheless.
    begins = phase is not status.phase and status.phase is TrainingJobPhase.CREATING
    ending = None if begins else get_status(world, status, now)
    if ending is not None:
        return _end(world, status, ending, now)
    if scaling.must_scale(world, status):
        status = scaling.with_record(world, status, now)
    elif phase is TrainingJobPhase.RUNNING and scaling.holds(world, status):
        status = scaling.with_result(status, scaling.SUCCEEDED)
    return _go_on(world, status, phase, now)


def _go_on(world: World, status: TrainingJobStatus, phase: TrainingJobPhase, now: float) -> Plan:
    status = in_phase(world, status, phase, _waiting_for(world, phase), now)
    is_up = phase in {TrainingJobPhase.RUNNING, TrainingJobPhase.SCALING}
    at = wall_time_at(world, status)
    return Plan(
        (
            *update_status(world, status),
            *events(world, status),
            *create_training_job(world, status),
            *scaling.scale(world, status),
            *(trace_labels_of_pods(world) if is_up else ()),
        ),
        wake_at=at if at is not None and at > now else None,
        reasons=(phase.value,),
    )


def _end(world: World, status: TrainingJobStatus, ending: Ending, now: float) -> Plan:
    """Record the end. What goes with it goes when it is on record."""
    status = scaling.with_result(status, scaling.INTERRUPTED)
    status = in_phase(world, status, ending.phase, ending.reason, now)
    return Plan(
        (*update_status(world, status), *events(world, status)), reasons=(ending.phase.value,)
    )


def _waiting_for(world: World, phase: TrainingJobPhase) -> str:
    """What keeps a living job from getting on, if anything is known to."""
    if world.refused is not None:
        return refusal_text(world)
    conditions = world.group.status.conditions if world.group else ()
    if phase is TrainingJobPhase.CREATING:
        for condition in conditions:
            if condition.type == "Unschedulable" and condition.status == "True":
                return condition.message
    return ""
