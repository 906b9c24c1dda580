"""How a pod says that it saves before it leaves, and what is on record about its departure.

A pod opts in by an annotation with the seconds that saving takes, or by its program's report. The
request to leave, the scheduler's record and the program's answer are annotations, too: they
outlive every process that waits, and go with the pod. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from swell.api.codec import decode, encode
from swell.api.injection import (
    EVICTION_ANNOTATION,
    RELEASE_ANNOTATION,
    REPORT_ANNOTATION,
    SAVED_ANNOTATION,
    EvictionRecord,
    ReleaseRequest,
)
from swell.api.pod import Pod
from swell.api.report import REPORT_BYTES_MAX, TrainingReport
from swell.api.times import format_time, parse_time

# On a pod without a job of ours: how many seconds it may take to save.
SAVE_SECONDS_ANNOTATION: Final = "elasticdeeplearning.ai/save-seconds"
# The time to save, if neither job nor pod says so: Kubernetes' default grace period.
GRACE_S: Final = 30
# A number of seconds with more digits than this is no time to wait for.
_DIGITS_MAX = 6


def save_seconds_of(pod: Pod) -> int | None:
    """Returns how long the pod itself asks to save; None if it has not opted in."""
    notes = pod.metadata.annotations
    text = notes.get(SAVE_SECONDS_ANNOTATION, "")
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return int(text)
    return grace_seconds(pod) if _reports_that_it_saves(notes.get(REPORT_ANNOTATION, "")) else None


def grace_seconds(pod: Pod) -> int:
    """Returns the time that the pod has to end, which is also its time to save by default."""
    grace_s = pod.spec.termination_grace_period_seconds
    return GRACE_S if grace_s is None else grace_s


def eviction_of(pod: Pod) -> EvictionRecord | None:
    """Returns the record on this very pod; None without one, or with one of another pod."""
    text = pod.metadata.annotations.get(EVICTION_ANNOTATION)
    if text is None:
        return None
    try:
        found = decode(text.encode(), EvictionRecord)
        parse_time(found.deadline)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return None
    return found if found.uid == pod.metadata.uid else None


def release_deadline(pod: Pod) -> float | None:
    """Returns when a pod that was asked to leave goes in any case; None if it was not asked.

    A request that cannot be read has no time left: a pod that was asked does not stay.
    """
    text = pod.metadata.annotations.get(RELEASE_ANNOTATION)
    if not text:
        return None
    try:
        return parse_time(decode(text.encode(), ReleaseRequest).deadline)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return 0.0


def has_answered(pod: Pod) -> bool:
    """Whether the program has said that it has saved."""
    return SAVED_ANNOTATION in pod.metadata.annotations


def release_note(reason: str, deadline: float, epoch: int = 0) -> dict[str, str]:
    """Returns the annotation that asks a pod to save and leave."""
    request = ReleaseRequest(reason=reason, deadline=format_time(deadline), epoch=epoch)
    return {RELEASE_ANNOTATION: encode(request).decode()}


def eviction_note(record: EvictionRecord) -> dict[str, str]:
    """Returns the annotation that leaves a pod's departure to its operator."""
    return {EVICTION_ANNOTATION: encode(record).decode()}


def _reports_that_it_saves(text: str) -> bool:
    if not text or len(text) > REPORT_BYTES_MAX:
        return False
    try:
        return decode(text.encode(), TrainingReport).saves
    except msgspec.DecodeError:
        return False
