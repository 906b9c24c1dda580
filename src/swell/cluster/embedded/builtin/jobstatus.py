"""Which writes of a Job's status are refused: counts, conditions, times and indexes that disagree.

Several controllers may write the status of a Job (`spec.managedBy`), so its server checks what its
clients rely on. Most rules look only at what a write changes: an edit of the spec may break them
for a while, until the controller has followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from swell.api.meta import Body
from swell.api.times import parse_time
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
ENDS = ("Complete", "Failed")
# An end is announced by the second condition before the first declares it.
ANNOUNCED_BY = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
# Conditions that are never taken back, and in which order that is reported.
LASTING = ("Failed", "Complete", "FailureTarget")
CONDITIONS, INDEX_FIELDS = "status.conditions", ("completedIndexes", "failedIndexes")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")  # what Go reads as a number, of at most 64 bits


class _Interval(NamedTuple):
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Change:
    """A Job with its new status, and the status before."""

    spec: Body
    new: Body
    old: Body

    def of(self, *names: str) -> bool:
        """Whether a field of the status is changed; no value and zero are one for `active`."""
        empty = {"active": 0, "completedIndexes": ""}
        return any(self.new.get(n, empty.get(n)) != self.old.get(n, empty.get(n)) for n in names)

    def of_condition(self, *kinds: str) -> bool:
        return any(_is_true(self.new, kind) != _is_true(self.old, kind) for kind in kinds)

    @property
    def of_end(self) -> bool:
        return _has_ended(self.new) != _has_ended(self.old)


def status_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    """The errors of a new status, given the Job as it is stored."""
    change = _Change(new["spec"], new["status"], (old or {}).get("status", {}))
    for name in COUNTS:
        yield from fields.non_negative(change.new, name, "status")
    yield from _uncounted_errors(change.new.get("uncountedTerminatedPods") or {})
    yield from _end_errors(change)
    yield from _completion_errors(change)
    if _has_ended(change.new):
        yield from _finished_errors(change)
    yield from _index_errors(change)
    ready = change.new.get("ready")
    if ready is not None and change.of("ready", "active") and ready > change.new.get("active", 0):
        detail = "cannot set more ready pods than active"
        yield field_errors.invalid("status.ready", ready, detail)
    yield from _criteria_errors(change)
    yield from _transition_errors(change)


def _uncounted_errors(uncounted: Body) -> Iterator[FieldError]:
    seen = set[str]()
    for part in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(part) or ()):
            where = f"status.uncountedTerminatedPods.{part}[{index}]"
            if not uid:
                yield field_errors.invalid(where, uid, "must not be empty")
            elif uid in seen:
                yield field_errors.duplicate(where, uid)
            seen.add(uid)


def _end_errors(change: _Change) -> Iterator[FieldError]:
    """Ends that exclude each other, or that nothing has announced."""
    status = change.new
    is_complete = _is_true(status, "Complete")
    for other in ("Failed", "FailureTarget"):
        both = is_complete and _is_true(status, other)
        if both and change.of_condition("Complete", other):
            detail = f"cannot set Complete=True and {other}=true conditions"
            yield field_errors.invalid(CONDITIONS, "", detail)
    changed = {
        "Complete": change.of_condition("Complete", "SuccessCriteriaMet"),
        "Failed": change.of_condition("Failed") or change.of("failedIndexes"),
    }
    for end in ENDS:
        if changed[end] and _is_true(status, end) and not _is_true(status, ANNOUNCED_BY[end]):
            detail = f"cannot set {end}=True condition without {ANNOUNCED_BY[end]}=true"
            yield field_errors.invalid(CONDITIONS, "", detail)


def _completion_errors(change: _Change) -> Iterator[FieldError]:
    """The time of completion belongs to Complete, and is not before the start."""
    status, where = change.new, "status.completionTime"
    at, is_complete = status.get("completionTime"), _is_true(status, "Complete")
    if change.of("completionTime") or change.of_condition("Complete"):
        if at and not is_complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield field_errors.invalid(where, at, detail)
        if is_complete and not at:
            yield field_errors.required(where, "completionTime is required for Complete jobs")
    begun = status.get("startTime")
    is_moved = change.of("startTime", "completionTime")
    if begun and at and is_moved and parse_time(at) < parse_time(begun):
        yield field_errors.invalid(where, at, "must be equal to or after `startTime`")


def _finished_errors(change: _Change) -> Iterator[FieldError]:
    """The fields that a Job that has ended cannot have any more, or must have."""
    status = change.new
    for name in ("active", "terminating"):
        if status.get(name, 0) > 0 and (change.of_end or change.of(name)):
            detail = f"{name}>0 is invalid for finished job"
            yield field_errors.invalid(f"status.{name}", status[name], detail)
    never_began = change.spec.get("suspend") and change.spec.get("completions") == 0
    has_begun = status.get("startTime") or never_began
    if not has_begun and (change.of_end or change.of("startTime")):
        detail = "startTime is required for finished job"
        yield field_errors.required("status.startTime", detail)
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (change.of_end or change.of("uncountedTerminatedPods")):
        where = "status.uncountedTerminatedPods"
        yield field_errors.invalid(where, uncounted, "must be empty for finished job")


def _index_errors(change: _Change) -> Iterator[FieldError]:
    """Indexes that cannot be read, or that a Job of this kind does not have."""
    status, spec = change.new, change.spec
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex")
    needs = {
        "completedIndexes": (
            spec.get("completionMode") == "Indexed",
            "non-indexed completion mode",
        ),
        "failedIndexes": (per_index is not None, "backoffLimitPerIndex is null"),
    }
    for name in INDEX_FIELDS:
        text, (may_have, reason) = status.get(name), needs[name]
        is_read = name == "completedIndexes" or may_have
        if not change.of(name) or text is None:
            continue
        problem = _problem(text, completions) if is_read and completions is not None else ""
        if problem:
            detail = f"error parsing {name}: {problem}"
            yield field_errors.invalid(f"status.{name}", text, detail)
        if not may_have and (text or name == "failedIndexes"):
            detail = f"cannot set {name} when {reason}"
            yield field_errors.invalid(f"status.{name}", text, detail)
    done, failed = (status.get(name) or "" for name in INDEX_FIELDS)
    if completions is not None and change.of(*INDEX_FIELDS) and done and failed:
        both = _overlap(done, failed, completions)
        if both is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield field_errors.invalid("status.failedIndexes", failed, detail)


def _problem(text: str, completions: int) -> str:
    """Why a text names no set of indexes; empty if it does."""
    last = None
    for part in text.split(",") if text else ():
        found = _interval(part, completions)
        if isinstance(found, str):
            return found
        if last is not None and last >= found.first:
            return f"non-increasing order, previous: {last}, current: {found.first}"
        last = found.last
    return ""


def _interval(part: str, completions: int) -> _Interval | str:
    """The indexes of one part, or why it names none. One like `-1` has an empty first limit."""
    limits = part.split("-")
    if len(limits) > 2:
        return f"{part!r} has more than two parts"
    for limit in limits:
        if not _INDEX.fullmatch(limit):
            return f"cannot convert string to integer for index: {limit!r}"
        if int(limit) >= completions:
            return f"too large index: {limit!r}"
    first, last = int(limits[0]), int(limits[-1])
    if len(limits) > 1 and first >= last:
        return f"non-increasing order, previous: {first}, current: {last}"
    return _Interval(first, last)


def _overlap(done: str, failed: str, completions: int) -> int | None:
    """The first index in both texts; parts that cannot be read are passed over."""
    sets = []
    for text in (done, failed):
        found = (_interval(part, completions) for part in text.split(","))
        sets.append(sorted(one for one in found if isinstance(one, _Interval)))
    left, right = sets
    i = j = 0
    while i < len(left) and j < len(right):
        one, other = left[i], right[j]
        if one.first <= other.last and other.first <= one.last:
            return max(one.first, other.first)
        if one.first <= other.first:
            i += 1
        else:
            j += 1
    return None


def _criteria_errors(change: _Change) -> Iterator[FieldError]:
    """Criteria of success that are met exclude a failure; these rules hold for every write."""
    if _is_true(change.new, "SuccessCriteriaMet"):
        for other in ("Failed", "FailureTarget"):
            if _is_true(change.new, other):
                detail = f"cannot set SuccessCriteriaMet=True and {other}=true conditions"
                yield field_errors.invalid(CONDITIONS, "", detail)
    elif _is_true(change.new, "Complete") and change.spec.get("successPolicy") is not None:
        detail = (
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        )
        yield field_errors.invalid(CONDITIONS, "", detail)


def _transition_errors(change: _Change) -> Iterator[FieldError]:
    """Counters, times and conditions may not be taken back."""
    new, old, spec = change.new, change.old, change.spec
    for kind in LASTING:
        if _is_true(old, kind) and not _is_true(new, kind):
            detail = f"cannot disable the terminal {kind}=True condition"
            yield field_errors.invalid(CONDITIONS, "", detail)
    # The number of completions of such a Job may shrink, and its successes with it.
    is_elastic = spec.get("completionMode") == "Indexed" and (
        spec.get("completions") == spec.get("parallelism")
    )
    for name in ("failed", *(() if is_elastic else ("succeeded",))):
        if new.get(name, 0) < old.get(name, 0):
            detail = f"cannot decrease the {name} counter"
            yield field_errors.invalid(f"status.{name}", new.get(name, 0), detail)
    at, was_at = new.get("completionTime"), old.get("completionTime")
    if at and was_at and at != was_at:
        yield field_errors.invalid("status.completionTime", at, "field is immutable")
    is_resuming = _is_true(old, "Suspended") and _is(new, "Suspended", "False")
    may_restart = is_resuming or spec.get("suspend")
    if old.get("startTime") and change.of("startTime") and not may_restart:
        detail = "field is immutable for unsuspended job once set"
        yield field_errors.invalid("status.startTime", new.get("startTime"), detail)
    met, was_met = _is_true(new, "SuccessCriteriaMet"), _is_true(old, "SuccessCriteriaMet")
    if was_met and not met:
        detail = "cannot disable the SuccessCriteriaMet=True condition"
        yield field_errors.invalid(CONDITIONS, "", detail)
    if met and not was_met and _is_true(old, "Complete"):
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield field_errors.invalid(CONDITIONS, "", detail)


def _has_ended(status: Body) -> bool:
    return any(_is_true(status, kind) for kind in ENDS)


def _is_true(status: Body, kind: str) -> bool:
    return _is(status, kind, "True")


def _is(status: Body, kind: str, value: str) -> bool:
    found = (c for c in status.get("conditions") or () if c.get("type") == kind)
    return any(c.get("status") == value for c in found)
