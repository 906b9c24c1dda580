"""Chooses which jobs of a pool keep their minimum in any case, and which may be left with nothing.

Jobs take turns where that finishes them sooner: one that has told what is left of it and loses
nothing by a stop may get no device at all, and goes on later. Its turn lasts for a while at least,
so that its start pays off, and it is not kept waiting for longer than others are. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# A job that has started runs for so long before it is stopped: the time in which a resize has to
# pay off as well.
TURN_S = 300.0


class TurnRequest(NamedTuple):
    """The least that a job needs of a pool, and where it is in its turn.

    `runs` says that it holds something, `may_stop` that it may lose all of it now, `is_stopped`
    that it has lost it before. `is_starving` says that it has waited for as long as any may.
    """

    least: int
    runs: bool
    may_stop: bool
    is_stopped: bool
    is_starving: bool


def minimums(requests: Sequence[TurnRequest], budget: int) -> list[int]:
    """Returns what each job gets in any case, in the order of requests: its least, or nothing.

    Jobs that run and may not be stopped come first, then starving ones. A new job gets its least if
    there is room beside all that run; where there is not, the values of sizes decide.
    """
    kept = [one.least if one.runs and not one.may_stop else 0 for one in requests]
    left = budget - sum(kept)
    for at, one in enumerate(requests):
        if one.is_starving and not one.runs and one.least <= left:
            kept[at] = one.least
            left -= one.least
    left -= sum(one.least for one in requests if one.runs and one.may_stop)
    for at, one in enumerate(requests):
        is_new = not (one.runs or one.is_stopped or one.is_starving)
        if is_new and one.least <= left:
            kept[at] = one.least
            left -= one.least
    return kept
