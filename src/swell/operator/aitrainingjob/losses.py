"""Which pods a job lost to others: evicted, shrunk away, or with their node. Pure.

A loss becomes the job's condition `Disrupted`, with who took the pods and for which job, and what
it costs as far as the program reports it. The condition turns False when the job is whole again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus, ScaleRecord
from swell.api.meta import Condition
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob.causes import Cause, CauseKind
from swell.operator.aitrainingjob.phases import JobReason, active
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.status import MESSAGE_MAX
from swell.operator.framework.waiting import (
    DISRUPTED,
    SHRUNK,
    Disruption,
    disrupted_condition,
    eviction_of,
    saved_text,
    with_disruption,
)

# After so long without a replaced pod, a complete job has not lost what it was said to lose.
_SETTLED_S = 60.0
_NOT_BY_SCHEDULER = frozenset({SHRUNK, JobReason.NODE_LOST.value, JobReason.GPU_FAULT.value})


def with_losses(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    begun: Cause | None,
    now: float,
) -> AITrainingJobStatus:
    """The status with the condition of its last loss."""
    former = disrupted_condition(status.conditions)
    is_over = former is not None and _is_over(snapshot, status, former, now)
    new = with_disruption(former, _losses(snapshot, status, begun, now), is_over=is_over, now=now)
    if new is None or new is former:
        return status
    others = [one for one in status.conditions if one.type != DISRUPTED]
    return replace(status, conditions=(*others, replace(new, message=new.message[:MESSAGE_MAX])))


def lasting_loss(status: AITrainingJobStatus) -> Condition | None:
    """The condition of a loss that the job has not made good."""
    held = disrupted_condition(status.conditions)
    return held if held is not None and held.status == "True" else None


def made_room(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float) -> bool:
    """Whether the scheduler took the pods that are gone, to give their room to others.

    The pods told it while they were there. The group tells it of roles that are not counted as
    preempted: elastic ones.
    """
    if status.preemptions and status.preempted_epoch == status.epoch:
        return True
    lost = lasting_loss(with_losses(snapshot, status, None, now))
    return lost is not None and lost.reason not in _NOT_BY_SCHEDULER


def with_loss_text(begun: Cause, status: AITrainingJobStatus) -> str:
    """The message of a cause; of a pod that is gone, with who took it."""
    lost = lasting_loss(status)
    if lost is None or begun.kind is not CauseKind.GONE:
        return begun.message
    return f"{begun.message}: {lost.message}"


def settled_at(status: AITrainingJobStatus) -> float | None:
    """When a loss counts as made good without a pod that is certainly a new one."""
    lost = lasting_loss(status)
    if lost is None or lost.reason == SHRUNK or not lost.last_transition_time:
        return None
    return parse_time(lost.last_transition_time) + _SETTLED_S


def _losses(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    begun: Cause | None,
    now: float,
) -> Iterator[Disruption]:
    saved = saved_text(status.training)
    if evicted := eviction_of(snapshot.group):
        yield Disruption(evicted.reason, f"{evicted.message}{saved}", evicted.time)
    if begun is not None and begun.kind is CauseKind.NODE:
        yield Disruption(begun.reason.value, f"{begun.message}{saved}", format_time(now))
    if record := _last_shrink(status):
        text = f"{record.role} shrunk from {record.from_} to {record.to} by the {record.by.value}"
        yield Disruption(SHRUNK, f"{text}: {record.reason}", record.time)


def _last_shrink(status: AITrainingJobStatus) -> ScaleRecord | None:
    """The last resize that made room for another job."""
    given = [one for one in status.scale_records if one.for_ and one.to < one.from_]
    return given[-1] if given else None


def _is_over(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, held: Condition, now: float
) -> bool:
    """Whether the job has again what it lost."""
    if held.reason == SHRUNK:
        record = _last_shrink(status)
        return record is None or status.target_replicas.get(record.role, 0) >= record.from_
    is_whole = len(active(snapshot, status)) >= sum(status.target_replicas.values())
    if not is_whole or any(one.is_leaving for one in snapshot.replicas):
        return False
    since = held.last_transition_time or ""
    # The record is written before the pods go: a complete job may still have to lose them.
    created = (one.pod.metadata.creation_timestamp or "" for one in snapshot.replicas)
    return any(at > since for at in created) or now - parse_time(since) >= _SETTLED_S
