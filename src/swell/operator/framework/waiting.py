"""Why a job waits, and by whom it lost pods, in the words of the scheduler. Pure.

The scheduler writes its reasons on the job's PodGroup: conditions for a gang that waits, and an
annotation for one that lost pods. A loss is kept on the job as its condition `Disrupted`, which is
True until the job has what it lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from swell.api import codec
from swell.api.impossible import CANNOT_EVER_FIT
from swell.api.meta import Condition
from swell.api.scheduling import GANG_PREFIX, LOSS_ANNOTATION, LossRecord, PodGroup
from swell.api.times import format_time, parse_time
from swell.api.training import TrainingStatus
from swell.operator.framework.status import condition

DISRUPTED: Final = "Disrupted"
SHRUNK: Final = "Shrunk"


@dataclass(frozen=True, slots=True)
class Disruption:
    """A loss of pods that the job did not cause: the reason, the sentence, and the time."""

    reason: str
    message: str
    time: str


def wait_reason(group: PodGroup | None) -> tuple[str, str]:
    """The reason and the sentence why the scheduler has not started the gang; empty if it has."""
    conditions = group.status.conditions if group is not None else ()
    held = {one.type: one for one in conditions if one.status == "True"}
    # That it can never start says more than why it does not now.
    found = held.get(CANNOT_EVER_FIT) or held.get("Unschedulable")
    if found is None:
        return "", ""
    _, prefix, rest = found.message.partition(GANG_PREFIX)
    return found.reason, rest if prefix else found.message


def eviction_of(group: PodGroup | None) -> Disruption | None:
    """The last eviction that the scheduler has recorded on the group, if it can be read."""
    text = group.metadata.annotations.get(LOSS_ANNOTATION) if group is not None else None
    if not text:
        return None
    try:
        record = codec.decode(text.encode(), LossRecord)
        parse_time(record.time)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return None  # somebody else wrote it: it explains nothing
    return Disruption(record.reason or "Evicted", record.message, record.time)


def disrupted_condition(former: Iterable[Condition]) -> Condition | None:
    """The condition of the last loss, whether it lasts or not."""
    return next((one for one in former if one.type == DISRUPTED), None)


def with_disruption(
    former: Condition | None, found: Iterable[Disruption], *, is_over: bool, now: float
) -> Condition | None:
    """The condition after these losses: True for the newest that is new, False once it is over."""
    new = [one for one in found if _is_new(one, former)]
    if new:
        last = max(new, key=lambda one: (parse_time(one.time), one.reason))
        holds = condition(DISRUPTED, True, last.reason, last.message)
        return replace(holds, last_transition_time=last.time)
    if former is not None and former.status == "True" and is_over:
        # Never before the loss itself: another clock may be ahead, and the loss would seem new.
        since = max(now, parse_time(former.last_transition_time or format_time(now)))
        return replace(former, status="False", last_transition_time=format_time(since))
    return former


def _is_new(found: Disruption, former: Condition | None) -> bool:
    """Whether a loss comes after the one on record.

    There is an order, so that two losses at the same time do not replace each other for ever.
    """
    if former is None or not former.last_transition_time:
        return True
    held = parse_time(former.last_transition_time), former.reason
    return (parse_time(found.time), found.reason) > held


def explained_wait(disruption: Condition | None, group: PodGroup | None) -> tuple[str, str]:
    """Reason and sentence of a job that has no pods running: what it lost, then why it waits."""
    reason, message = wait_reason(group)
    if disruption is None or disruption.status != "True":
        return reason, message
    waits = f"; it waits: {message}" if message else ""
    return disruption.reason, f"{disruption.message}{waits}"


def saved_text(training: TrainingStatus | None) -> str:
    """The step and the last save of a program that reports them; empty for one that does not."""
    if training is None or not training.step:
        return ""
    if training.last_save is None:
        return f"; it was at step {training.step} and has saved nothing"
    return f"; it was at step {training.step}, last saved at step {training.last_save.step}"
