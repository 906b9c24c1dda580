"""Fault marks: which jobs failed on a node, when and why, as an annotation of the node keeps them.

A mark weighs one when it is made, half of that after each half-life, and is forgotten after three
half-lives. A node on which different jobs have failed is a suspect. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from swell.api import codec
from swell.api.aitrainingjob import API_GROUP, NodeFault
from swell.api.meta import ApiStruct
from swell.api.times import parse_time

FAULTS_ANNOTATION: Final = f"{API_GROUP}/faults"
# On a node that is kept free of new pods because it is a suspect.
SUSPECT_TAINT: Final = f"{API_GROUP}/suspect"
HALF_LIFE_S: Final = 3600.0
# So many different jobs make a node a suspect.
SUSPECT_JOBS: Final = 3
# A mark of an eighth of its weight is forgotten.
_HALF_LIVES_KEPT: Final = 3
# An annotation stays below 8 KiB; one job alone cannot push out the marks of the others.
MARKS_MAX: Final = 20
_OF_ONE_JOB_MAX: Final = 3
_MESSAGE_MAX: Final = 200


class FaultMark(ApiStruct, frozen=True):
    """One failure of a job that is blamed on the node."""

    job: str = ""  # namespace/name
    time: str = ""
    reason: str = ""
    message: str = ""


class FaultRecord(ApiStruct, frozen=True):
    """The marks of one node. Marks that are not younger than `trusted` do not count."""

    half_life_seconds: int = int(HALF_LIFE_S)
    trusted: str | None = None
    marks: tuple[FaultMark, ...] = ()

    def counted(self, now: float) -> tuple[FaultMark, ...]:
        """The marks that are not forgotten."""
        half_life_s = max(self.half_life_seconds, 1)
        return tuple(
            one
            for one in self.marks
            if _counts(one.time, self.trusted, half_life_s, now) and one.job
        )

    def ends(self) -> tuple[tuple[FaultMark, float], ...]:
        """The marks that no trust has wiped out, each with the time at which it is forgotten."""
        kept_s = kept_for_s(max(self.half_life_seconds, 1))
        # At time 0 no mark is too old.
        return tuple((one, parse_time(one.time) + kept_s) for one in self.counted(0.0))

    def weight(self, now: float) -> float:
        """The sum of the marks, each halved with every half-life."""
        half_life_s = max(self.half_life_seconds, 1)
        ages_s = (max(0.0, now - parse_time(one.time)) for one in self.counted(now))
        return math.fsum(math.exp2(-age_s / half_life_s) for age_s in ages_s)

    def jobs(self, now: float) -> tuple[str, ...]:
        """The different jobs that failed on the node, in order of their names."""
        return tuple(sorted({one.job for one in self.counted(now)}))

    def is_suspect(self, now: float) -> bool:
        return len(self.jobs(now)) >= SUSPECT_JOBS


def read_faults(annotations: Mapping[str, str]) -> FaultRecord:
    """The record in a node's annotations; an empty one where there is none that can be read."""
    text = annotations.get(FAULTS_ANNOTATION)
    if not text:
        return FaultRecord()
    try:
        found = codec.decode(text.encode(), FaultRecord)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return FaultRecord()
    marks = tuple(one for one in found.marks if _moment(one.time) is not None)
    trusted = found.trusted if _moment(found.trusted or "") is not None else None
    return replace(found, marks=marks, trusted=trusted)


def written_faults(record: FaultRecord) -> dict[str, str]:
    """The annotation that holds a record."""
    return {FAULTS_ANNOTATION: codec.encode_stable(record).decode()}


def with_marks(record: FaultRecord, marks: Iterable[FaultMark], now: float) -> FaultRecord | None:
    """The record with these marks as well; None if all that count are in it already.

    The newest marks stay. One that a former write has dropped is not added anew: it is older
    than those that stayed.
    """
    held = set(record.marks)
    cut = [replace(one, message=one.message[:_MESSAGE_MAX]) for one in marks]
    found = replace(record, marks=(*record.marks, *(one for one in cut if one not in held)))
    newest = sorted(found.counted(now), key=lambda one: (one.time, one.job), reverse=True)
    kept: list[FaultMark] = []
    for one in newest:
        n_of_job = sum(other.job == one.job for other in kept)
        if n_of_job < _OF_ONE_JOB_MAX and len(kept) < MARKS_MAX:
            kept.append(one)
    if all(one in held for one in kept):
        return None
    return replace(record, marks=tuple(reversed(kept)))


def fault_counts(
    faults: Iterable[NodeFault], trusted: Mapping[str, str], half_life_s: float, now: float
) -> dict[str, int]:
    """How often a job has failed on each node, as far as that is not forgotten."""
    counts: dict[str, int] = {}
    for one in faults:
        if one.blamed and _counts(one.time, trusted.get(one.node), half_life_s, now):
            counts[one.node] = counts.get(one.node, 0) + 1
    return counts


def kept_for_s(half_life_s: float) -> float:
    """How long after its time a mark counts."""
    return _HALF_LIVES_KEPT * half_life_s


def is_forgotten(time: str, half_life_s: float, now: float) -> bool:
    """Whether a mark of this time weighs nothing any more; so does one of no time at all."""
    return not _counts(time, None, half_life_s, now)


def _counts(time: str, trusted: str | None, half_life_s: float, now: float) -> bool:
    at, trusted_at = _moment(time), _moment(trusted or "")
    if at is None or (trusted_at is not None and at <= trusted_at):
        return False
    return now - at < kept_for_s(half_life_s)


def _moment(text: str) -> float | None:
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        return None
