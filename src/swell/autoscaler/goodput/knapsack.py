"""Sizes of the greatest total value within a budget: a multiple-choice knapsack. Pure, numpy only.

`exact` is dynamic programming over the budget; `greedy` walks the concave hulls of the jobs' values
and bounds its distance to the optimum. Rows are jobs, columns their choices; a row takes exactly
one choice, and one that must not be taken has the value -inf.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swell.autoscaler.goodput.stepmodel import Floats, Ints

# Exact up to this budget: beyond, time and memory of the table would grow past a tenth of a second.
EXACT_MAX = 2000
# And up to this many cells, jobs times budget, for the same reason.
_CELLS_MAX = 2_000_000
_NOTHING = -1e300


class Choice(NamedTuple):
    """The chosen column of each row, the total value, and a bound of what any choice could have."""

    columns: Ints
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """The distance to the optimum at most, as a share of it."""
        return 0.0 if self.bound <= 0 else max(0.0, (self.bound - self.value) / self.bound)


def choose(units: Ints, value: Floats, budget: int) -> Choice:
    """Returns the best choices, exactly where that is cheap, and otherwise within a printed gap.

    Every row needs a choice, and the smallest choices of all rows have to fit the budget together.
    """
    if budget <= EXACT_MAX and len(units) * (budget + 1) <= _CELLS_MAX:
        return exact(units, value, budget)
    return greedy(units, value, budget)


def exact(units: Ints, value: Floats, budget: int) -> Choice:
    """Returns choices of the greatest total value."""
    n_jobs, n_columns = units.shape
    if not n_jobs:
        return Choice(np.zeros(0, np.int64), 0.0, 0.0)
    span = budget + 1
    # Padded in front, so that a choice beyond the budget reads "impossible" and not the wrong end.
    padded = np.full(span + budget + 1, _NOTHING)
    padded[budget + 1 :] = 0.0
    shift = np.minimum(units, budget + 1)
    taken = np.empty((n_jobs, span), np.int16)
    window = np.arange(span)
    columns = np.arange(n_columns)
    usable = np.isfinite(value)
    for job in range(n_jobs):
        some = columns[usable[job]]
        start = budget + 1 - shift[job, some]
        table = padded[start[:, None] + window] + value[job, some][:, None]
        best = table.argmax(axis=0)
        taken[job] = some[best]
        padded[budget + 1 :] = table[best, window]
    at = int(padded[budget + 1 :].argmax())
    total = float(padded[budget + 1 + at])
    chosen = np.empty(n_jobs, np.int64)
    for job in range(n_jobs - 1, -1, -1):
        chosen[job] = taken[job, at]
        at -= int(units[job, chosen[job]])
    return Choice(chosen, total, total)


def greedy(units: Ints, value: Floats, budget: int) -> Choice:
    """Returns choices of nearly the greatest value: the steepest steps first."""
    n_jobs = len(units)
    rows = np.arange(n_jobs)
    usable = np.isfinite(value)
    least = np.where(usable, units, np.iinfo(np.int64).max)
    # Of equal units the more valuable choice is the first one.
    fewest = least.min(axis=1)
    at = np.where(least == fewest[:, None], value, -np.inf).argmax(axis=1)
    start, jobs, columns, slopes, steps = at.copy(), [], [], [], []
    while True:
        here_units, here_value = units[rows, at][:, None], value[rows, at][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (value - here_value) / (units - here_units)
        slope = np.where(usable & (units > here_units), slope, -np.inf)
        # Of equally steep steps the farthest, so that rows have few of them.
        steepest = slope.shape[1] - 1 - slope[:, ::-1].argmax(axis=1)
        gain = slope[rows, steepest]
        moved = np.flatnonzero(gain > 0)
        if not len(moved):
            break
        jobs.append(moved)
        columns.append(steepest[moved])
        slopes.append(gain[moved])
        steps.append(units[moved, steepest[moved]] - units[moved, at[moved]])
        at[moved] = steepest[moved]
    chosen = start
    room = budget - int(units[rows, chosen].sum())
    bound = float(value[rows, chosen].sum())
    if jobs:
        room, above = _take(
            chosen, room, [np.concatenate(x) for x in (jobs, columns, slopes, steps)]
        )
        bound += above
    total = float(value[rows, chosen].sum())
    return Choice(chosen, total, max(bound, total))


def _take(chosen: Ints, room: int, parts: list[NDArray[Any]]) -> tuple[int, float]:
    """Takes steps, the steepest first, while they fit; returns room and the bound's gain."""
    jobs, columns, slopes, steps = parts
    order = np.argsort(-slopes, kind="stable")
    jobs, columns, slopes, steps = (one[order] for one in (jobs, columns, slopes, steps))
    used = np.cumsum(steps)
    whole = int(np.searchsorted(used, room, side="right"))
    bound = float((slopes[:whole] * steps[:whole]).sum())
    # The steps of a job come in their order, so the last one taken says its size.
    chosen[jobs[:whole]] = columns[:whole]
    room -= int(used[whole - 1]) if whole else 0
    if whole < len(jobs):
        bound += float(slopes[whole]) * room
    # The rest of the room goes to later steps that fit, of jobs none of whose steps was passed by.
    passed: set[int] = set()
    for place in range(whole, len(jobs)):
        if room <= 0:
            break
        job = int(jobs[place])
        if job in passed or steps[place] > room:
            passed.add(job)
            continue
        chosen[job] = columns[place]
        room -= int(steps[place])
    return room, bound
