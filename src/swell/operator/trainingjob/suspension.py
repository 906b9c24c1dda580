"""A suspended TrainingJob: its pods, workloads and group go, and it waits until it may queue anew.

    (none) --suspend--> recorded: trainers are asked to save --> trainers' Job deleted --gone-->
       ^                ReplicaSets and group deleted --gone--> at rest
       +---------------------- all gone, and suspend is false -------------------+

The record (`status.suspension`) is written before anything is deleted for it, and taken away only
when everything is gone, however often users change their mind meanwhile. The trainers' Job goes as
a whole: one that was stopped and started again would count the trainers that it lost as failed or,
where a program ends well after it has saved, as done. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import Suspension
from swell.api.kinds import JOBS, REPLICA_SETS
from swell.api.meta import ObjectMeta
from swell.api.resource import Resource
from swell.api.times import format_time, parse_time
from swell.api.trainingjob import TrainingJobStatus
from swell.operator.trainingjob import departures, sizes
from swell.operator.trainingjob.cleanup import (
    delete_group,
    deletion,
    drop_stuck,
    has_group_left,
)
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot, is_leaving
from swell.runtime.plan import Step

SUSPENDED, RESUMED = "Suspended", "Resumed"  # the condition and its reasons
TEXT = "suspended: the job has given back its pods, or is about to, until it is resumed"


def is_over(snapshot: TrainingJobSnapshot) -> bool:
    """Whether a recorded suspension can be taken away: it is not wanted, and everything is gone."""
    held = (snapshot.trainer, snapshot.master, snapshot.pserver)
    has_any = bool(snapshot.pods) or has_group_left(snapshot)
    is_empty = not has_any and all(one is None for one in held)
    return is_empty and not snapshot.job.wants_suspension


def begun(status: TrainingJobStatus, now: float) -> TrainingJobStatus:
    """The status with the suspension on record, and without a resize that is under way."""
    at = format_time(now)
    has_run = status.start_time is not None
    return replace(
        sizes.with_result(status, sizes.INTERRUPTED),
        suspension=Suspension(started_at=at),
        paused_at=status.paused_at or (at if has_run else None),
    )


def ended(status: TrainingJobStatus) -> TrainingJobStatus:
    return replace(status, suspension=None)


def running_again(status: TrainingJobStatus, now: float) -> TrainingJobStatus:
    """The status of a job that runs, with the time of its suspension added to what was paused."""
    if status.paused_at is None:
        return status
    paused_s = max(0, int(now - parse_time(status.paused_at)))
    return replace(status, paused_at=None, paused_seconds=status.paused_seconds + paused_s)


def release_steps(snapshot: TrainingJobSnapshot, now: float) -> list[Step]:
    """The next steps: trainers first, because they need the pservers and the master until they go.

    The group goes with the trainers: it would go on asking for room.
    """
    asked = departures.ask_all(snapshot, now)
    if asked is None or asked:
        return [*(asked or ()), *drop_stuck(snapshot, now)]
    steps: list[Step] = []
    if snapshot.trainer is not None:
        steps += _deletion(JOBS, snapshot.trainer.metadata)
    steps += delete_group(snapshot)
    if snapshot.trainer is None and not snapshot.pods_of(Role.TRAINER):
        for held in snapshot.replica_sets.values():
            steps += _deletion(REPLICA_SETS, held.metadata)
    return [*steps, *drop_stuck(snapshot, now)]


def _deletion(resource: Resource[object], meta: ObjectMeta) -> list[Step]:
    return [] if is_leaving(meta) else [deletion(resource, meta)]
