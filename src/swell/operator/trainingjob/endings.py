"""Whether a job ends now, how, and why. Looked at in every phase that is not final."""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.times import parse_time
from swell.api.trainingjob import TrainingJobPhase, TrainingJobStatus
from swell.api.workloads import Job
from swell.operator.aitrainingjob.waiting import has_passed
from swell.operator.trainingjob.failures import (
    describe_pods,
    find_failed_trainer_pods,
    find_worn_pservers,
)
from swell.operator.trainingjob.world import (
    COMPLETE,
    FAILED,
    World,
    completed_indexes,
    failed_indexes,
    has_condition,
    is_over,
)

_INDEXES_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class Ending:
    phase: TrainingJobPhase
    reason: str


def get_status(world: World, status: TrainingJobStatus, now: float) -> Ending | None:
    """The end the job has come to, if it has."""
    return _by_trainers(world) or _by_pservers(world) or _by_wall_time(world, status, now)


def wall_time_at(world: World, status: TrainingJobStatus) -> float | None:
    """When the job will have run for too long: the time to look again."""
    limit_s = world.job.spec.annotations.walltime
    if not limit_s or status.start_time is None:
        return None
    return parse_time(status.start_time) + limit_s


def _by_trainers(world: World) -> Ending | None:
    job = world.trainer
    if job is None:
        return None
    if world.job.spec.fault_tolerant:
        return _tolerant(world, job) if is_over(job) else None
    if has_condition(job, COMPLETE):
        return Ending(TrainingJobPhase.SUCCEED, f"all {job.spec.completions} trainers succeeded")
    if find_failed_trainer_pods(world) or has_condition(job, FAILED):
        return Ending(TrainingJobPhase.FAILED, f"trainers failed: {_failures(world, job)}")
    return None


def _tolerant(world: World, job: Job) -> Ending:
    """No trainer is active or to be replaced: one that succeeded is enough."""
    done, lost = completed_indexes(job), failed_indexes(job)
    total = job.spec.completions or 0
    if not done:
        return Ending(TrainingJobPhase.FAILED, f"no trainer succeeded: {_failures(world, job)}")
    if len(done) >= total:
        return Ending(TrainingJobPhase.SUCCEED, f"all {total} trainers succeeded")
    named = ", ".join(map(str, sorted(lost)[:_INDEXES_SHOWN_MAX]))
    more = f" and {len(lost) - _INDEXES_SHOWN_MAX} more" if len(lost) > _INDEXES_SHOWN_MAX else ""
    text = f"{len(done)} of {total} trainers succeeded; failed for good: {named or 'none'}{more}"
    return Ending(TrainingJobPhase.SUCCEED, text)


def _failures(world: World, job: Job) -> str:
    """The failed pods, or what the Job says of them when they are gone."""
    told = describe_pods(find_failed_trainer_pods(world))
    if told:
        return told
    for condition in job.status.conditions:
        if condition.type == FAILED:
            return f"{condition.reason}: {condition.message}"
    return "their pods are gone"


def _by_pservers(world: World) -> Ending | None:
    worn = find_worn_pservers(world)
    if not worn:
        return None
    return Ending(TrainingJobPhase.FAILED, f"pservers restarted too often: {describe_pods(worn)}")


def _by_wall_time(world: World, status: TrainingJobStatus, now: float) -> Ending | None:
    limit_s = world.job.spec.annotations.walltime
    is_active = world.trainer is not None and not is_over(world.trainer)
    if not limit_s or status.start_time is None or not is_active:
        return None
    if not has_passed(parse_time(status.start_time), limit_s, now):
        return None
    return Ending(
        TrainingJobPhase.TIMEOUT, f"trainers were active {limit_s} s after the job began to run"
    )
