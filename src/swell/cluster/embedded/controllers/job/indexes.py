"""Sets of completion indexes, in the notation of a Job's status: `0-3,5,7`.

They are kept as intervals: even a Job with a million completions has few of those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

_NUMBER = re.compile(r"[0-9]{1,10}")  # an index has 32 bits


class Interval(NamedTuple):
    """The indexes from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of indexes as disjoint intervals in rising order, with a gap between any two."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        return cls(_merged(Interval(index, index) for index in sorted(indexes)))

    @classmethod
    def parse(cls, text: str, below: int) -> Indexes:
        """The indexes below a limit that a text names; parts that are no numbers are skipped."""
        found: list[Interval] = []
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
                continue
            interval = Interval(int(first), min(int(last) if dash else int(first), below - 1))
            if interval.first <= interval.last:
                found.append(interval)
        return cls(_merged(sorted(found)))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(_merged(sorted(self.intervals + other.intervals)))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        return any(first <= index <= last for first, last in self.intervals)

    def overlap(self, other: Indexes) -> int:
        """The number of indexes in both sets."""
        found, at = 0, 0
        for first, last in self.intervals:
            # Both are in rising order: an interval that ends before this one is never met again.
            while at < len(other.intervals) and other.intervals[at].last < first:
                at += 1
            for theirs in islice(other.intervals, at, None):
                if theirs.first > last:
                    break
                found += min(last, theirs.last) - max(first, theirs.first) + 1
        return found

    def first_missing(self, count: int, below: int) -> list[int]:
        """The `count` lowest indexes below a limit that are not in the set."""
        return list(islice(self._missing(below), count))

    def _missing(self, below: int) -> Iterator[int]:
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, below))
            candidate = last + 1
        yield from range(candidate, below)

    def __str__(self) -> str:
        return ",".join(_written(interval) for interval in self.intervals)


def _written(interval: Interval) -> str:
    first, last = interval
    if first == last:
        return str(first)
    # Kubernetes writes two neighbours as `4,5`, and only longer runs as `4-6`.
    return f"{first}{',' if last == first + 1 else '-'}{last}"


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Join intervals that touch; they are given in rising order of their beginnings."""
    merged: list[Interval] = []
    for interval in intervals:
        if merged and interval.first <= merged[-1].last + 1:
            merged[-1] = Interval(merged[-1].first, max(merged[-1].last, interval.last))
        else:
            merged.append(interval)
    return tuple(merged)
