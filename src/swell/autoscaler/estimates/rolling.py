"""Rolls a cluster forward over the ends of its jobs, and finds when each waiting job fits. Pure.

Amounts are those of the whole cluster: a gang that fits by amounts may wait a little longer for
nodes with enough of them. Whenever something becomes free, waiting jobs are tried in their order,
and one that does not fit does not hold up others, as the scheduler does.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swell.autoscaler.estimates.remaining import SCENARIOS, Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RollingProblem:
    """Rows are jobs, columns resources; `ends` and `durations` have a column for each scenario.

    `waiting` is in the order in which jobs are tried. `free` is what no running job holds.
    """

    free: Ints
    held: Ints
    ends: Floats
    waiting: Ints
    durations: Floats


def roll(problem: RollingProblem) -> Floats:
    """Returns by waiting job and scenario the seconds until its start; inf if it never starts."""
    found = np.full((len(problem.waiting), SCENARIOS), np.inf)
    if not len(problem.waiting):
        return found
    shapes, shape_of = np.unique(problem.waiting, axis=0, return_inverse=True)
    shape_of = shape_of.reshape(-1)
    for scenario in range(SCENARIOS):
        _roll_one(problem, scenario, (shapes, shape_of), found[:, scenario])
    return found


def _roll_one(
    problem: RollingProblem, scenario: int, by_shape: tuple[Ints, Ints], found: Floats
) -> None:
    shapes, shape_of = by_shape
    # The jobs of each shape in their order: only the first of each can be the next to start.
    lines = [list(np.flatnonzero(shape_of == shape))[::-1] for shape in range(len(shapes))]
    never = len(shape_of)
    heads = np.array([line[-1] for line in lines])
    free = problem.free.copy()
    ends = problem.ends[:, scenario]
    events = [(float(ends[at]), int(at)) for at in np.flatnonzero(np.isfinite(ends))]
    heapq.heapify(events)
    now = 0.0
    n_running, n_left = len(ends), never
    while True:
        fits = (shapes <= free).all(axis=1)
        head = int(np.where(fits, heads, never).min())
        if head < never:
            shape = shape_of[head]
            found[head] = now
            free -= shapes[shape]
            lines[shape].pop()
            heads[shape] = lines[shape][-1] if lines[shape] else never
            n_left -= 1
            duration = float(problem.durations[head, scenario])
            if np.isfinite(duration):
                heapq.heappush(events, (now + duration, n_running + head))
            continue
        if not n_left or not events:
            return
        now, at = heapq.heappop(events)
        free += problem.held[at] if at < n_running else shapes[shape_of[at - n_running]]
