"""The number of trainers: what it should be, the one update that makes it so, and its record."""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.kinds import JOBS
from swell.api.meta import Body
from swell.api.times import format_time
from swell.api.trainingjob import TrainerScaleRecord, TrainingJobStatus
from swell.operator.trainingjob.totals import trainer_total_running
from swell.operator.trainingjob.world import World, completion_index, is_finished
from swell.runtime.plan import Step, patch_object

RECORDS_MAX = 20
SUCCEEDED, SUPERSEDED, INTERRUPTED = "Succeeded", "Superseded", "Interrupted"
BY_OPERATOR = "operator"


def target(world: World, status: TrainingJobStatus) -> int:
    """How many trainers there should be: what was asked for, within what the spec allows."""
    spec = world.job.spec
    asked = _asked(world, status)
    return min(max(asked, spec.trainer_minimum), spec.trainer_maximum)


def must_scale(world: World, status: TrainingJobStatus) -> bool:
    """Whether the trainer Job has another size than it should."""
    job = world.trainer
    if job is None:
        return False
    wanted = target(world, status)
    return (job.spec.parallelism, job.spec.completions) != (wanted, wanted)


def holds(world: World, status: TrainingJobStatus) -> bool:
    """Whether the size is reached: the missing trainers run, the surplus ones are gone."""
    if world.trainer is None or must_scale(world, status):
        return False
    below = target(world, status)
    surplus = [
        pod
        for pod in world.trainers
        if not is_finished(pod) and (completion_index(pod) or 0) >= below
    ]
    return not surplus and trainer_total_running(world)


def scale(world: World, status: TrainingJobStatus) -> list[Step]:
    """Move parallelism and completions together: the only way an Indexed Job changes its size.

    The version keeps an update that arrives late from undoing a later one.
    """
    job = world.trainer
    if job is None or not must_scale(world, status):
        return []
    wanted, meta = target(world, status), job.metadata
    body: Body = {"spec": {"parallelism": wanted, "completions": wanted}}
    return [patch_object(JOBS, meta.key, meta.uid, body, version=meta.resource_version)]


def with_record(world: World, status: TrainingJobStatus, now: float) -> TrainingJobStatus:
    """The status with the resize on record, unless whoever asked for it has recorded it."""
    records, asked = status.scale_records, _asked(world, status)
    if world.trainer is None or (records and _is_open(records[-1]) and records[-1].to == asked):
        return status
    record = TrainerScaleRecord(
        time=format_time(now),
        from_=world.trainer.spec.parallelism,
        to=asked,
        by=BY_OPERATOR,
        reason=_why(world, status),
    )
    return replace(status, scale_records=(*_closed(records, SUPERSEDED), record)[-RECORDS_MAX:])


def with_result(status: TrainingJobStatus, result: str) -> TrainingJobStatus:
    """The status with the last resize's result, if that was still open."""
    records = status.scale_records
    if not any(map(_is_open, records)):
        return status
    *former, last = records
    closed = (*_closed(tuple(former), SUPERSEDED), *_closed((last,), result))
    return replace(status, scale_records=closed)


def _asked(world: World, status: TrainingJobStatus) -> int:
    asked = status.trainer_target
    return world.job.spec.trainer_minimum if asked is None else asked


def _why(world: World, status: TrainingJobStatus) -> str:
    asked, wanted = _asked(world, status), target(world, status)
    if asked != wanted:
        return f"trainer_target is {asked}, the spec allows {wanted}"
    return f"trainer_target is {asked}"


def _is_open(record: TrainerScaleRecord) -> bool:
    return not record.result


def _closed(records: tuple[TrainerScaleRecord, ...], result: str) -> tuple[TrainerScaleRecord, ...]:
    return tuple(replace(one, result=result) if _is_open(one) else one for one in records)
