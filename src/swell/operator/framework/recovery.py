"""The parts a lost or damaged status of a job is rebuilt from. Pure; each kind does the rest.

A status can be emptied (a restore from a backup, a client that replaces it) or hold values that no
controller wrote. The objects of the job then prove what was: its children, and a mark that the job
itself carries once its end is decided. What they do not prove is named in a condition.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swell.api import codec
from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.times import format_time, parse_time
from swell.api.training import TrainingStatus
from swell.operator.framework.status import MESSAGE_MAX, RECOVERED, condition, dated
from swell.runtime.plan import PatchObject, patch_object

# The reasons of the condition that reports a recovery.
LOST, DAMAGED = "StatusLost", "StatusDamaged"
# No job restarts or resizes that often: a larger number was not written by a controller.
COUNT_MAX = 999_999_999
# Annotations are read by people in listings, and all of an object's share one size limit.
_MARK_MESSAGE_MAX = 1024


class EndingMark(ApiStruct, frozen=True):
    """How a job ends, as an annotation on the job itself, where no write of the status reaches it.

    It names the job's UID, because manifests are copied with their annotations: a job made from
    the manifest of an ended one has not ended.
    """

    uid: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    decided_at: str = ""
    restart_counts: dict[str, int] = msgspec.field(default_factory=dict)
    uncharged: dict[str, int] = msgspec.field(default_factory=dict)


def read_mark(meta: ObjectMeta, annotation: str) -> EndingMark | None:
    """The mark of this very job; None without one, or with one that cannot be read."""
    text = meta.annotations.get(annotation)
    if text is None:
        return None
    try:
        mark = codec.decode(text.encode(), EndingMark)
    except msgspec.DecodeError:
        return None
    return mark if mark.uid == meta.uid else None


def mark_ending(
    resource: Resource[object], meta: ObjectMeta, annotation: str, mark: EndingMark
) -> list[PatchObject]:
    """Put the mark on the job, unless it is there. It is written before anything is deleted."""
    if read_mark(meta, annotation) is not None:
        return []
    short = msgspec.structs.replace(mark, message=mark.message[:_MARK_MESSAGE_MAX], uid=meta.uid)
    body: Body = {"metadata": {"annotations": {annotation: codec.encode(short).decode()}}}
    return [patch_object(resource, meta.key, meta.uid, body)]


def salvaged(found: Body, status: type[object]) -> Body:
    """The fields of an undecodable status that can be read, each by itself."""
    kept: Body = {}
    for name, value in found.items():
        try:
            codec.convert({name: value}, status)
        except msgspec.ValidationError:
            continue
        kept[name] = value
    return kept


def recovered_condition(
    reason: str, message: str, former: Iterable[Condition], now: float
) -> tuple[Condition, ...]:
    """The conditions of a job with the one that reports the recovery."""
    held = tuple(former)
    report = condition(RECOVERED, True, reason, message[:MESSAGE_MAX])
    return (*(c for c in held if c.type != RECOVERED), dated(report, (), format_time(now)))


def kept_conditions(former: Iterable[Condition]) -> list[Condition]:
    """The conditions that stay whatever the phase is."""
    return [one for one in former if one.type == RECOVERED]


def sound_time(text: str | None) -> str | None:
    """The text if it is a time, None if it is not."""
    if text is None:
        return None
    try:
        parse_time(text)
    except (ValueError, OverflowError):
        return None
    return text


def sound_training(held: TrainingStatus | None) -> TrainingStatus | None:
    """The last report, if its time can be read."""
    return held if held is not None and sound_time(held.reported_at) else None


def is_time(text: str) -> bool:
    """Whether a record's time is valid; records without one exist, too."""
    return not text or sound_time(text) is not None


def is_count(number: int) -> bool:
    """Whether a controller may have counted to this number."""
    return 0 <= number <= COUNT_MAX


def sound_counts(counts: dict[str, int]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if is_count(n)}


def latest_start(pods: Iterable[Pod]) -> str | None:
    """When the last container of these pods started; None while none has."""
    found: list[str] = []
    for pod in pods:
        for held in pod.status.container_statuses:
            state = held.state.running or held.state.terminated
            text = sound_time(state.started_at) if state is not None else None
            if text is not None:
                found.append(text)
    return max(found, key=parse_time, default=None)
