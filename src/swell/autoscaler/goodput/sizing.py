"""Sizes for jobs that share a pool of equal devices: candidates, values, and the best choice. Pure.

A job is a row. The value of a size is the job's weight (`prices`) times its speed, less what the
resize itself costs: over the next while, a change loses `cost_s` seconds of progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from swell.autoscaler.goodput import knapsack, prices
from swell.autoscaler.goodput.stepmodel import Floats, Ints

# A size must be this much faster than every smaller one to be worth its devices at all.
SPEED_STEP = 1.02
# Nodes that take more replicas than any has GPUs: there devices are not joined by fast links.
_FINE_ABOVE = 16
# A deadline is kept with this much to spare: speeds that are predicted are not that exact.
_DUE_MARGIN = 0.05
# A resize has to pay off within this time. Sizes are decided anew long before it is over.
HORIZON_S = 300.0
# And within as many times what it costs, if that is longer: otherwise a job whose restart takes
# minutes would never grow, however long it lasts.
_HORIZON_COSTS = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class SizingProblem:
    """The jobs of one pool. `sizes` and `speed` have a row for each job; 0 is no choice.

    `current` is the size a job holds, 0 if it holds nothing. `least` is the size that it keeps or
    gets in any case. `left_s` is the remaining work in seconds at speed 1, `ends` whether that is
    known and not guessed. `units` are the devices of one replica. `due_s` is the time until each
    job should be done, infinite for those that do not say.
    """

    sizes: Ints
    speed: Floats
    units: Ints
    current: Ints
    least: Ints
    left_s: Floats
    ends: NDArray[np.bool_]
    cost_s: Floats
    budget: int
    horizon_s: float = HORIZON_S
    due_s: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sizing:
    """The chosen size of each job, its speed, its weight, and the price of a device."""

    sizes: Ints
    speed: Floats
    weights: Floats
    price: float
    gap: float


@lru_cache(maxsize=4096)
def candidate_sizes(
    minimum: int, maximum: int, per_node: int, current: int, top: int
) -> tuple[int, ...]:
    """Returns the sizes looked at: powers of two within a node, whole nodes, the bounds.

    `per_node` is how many replicas a node takes; `top` the most there is room for. Where a node
    takes many, it has no halves that have to stay whole, and sizes lie closer.
    """
    most = max(min(maximum, top), minimum)
    sizes = {minimum}
    size = 1
    while size < min(per_node, most + 1):
        sizes.add(size)
        size += size if per_node <= _FINE_ABOVE else max(1, 1 << max(size.bit_length() - 3, 0))
    sizes.update(range(per_node, most + 1, per_node))
    if most < maximum or maximum < per_node:
        sizes.add(most)
    sizes.add(maximum if maximum <= top else most)
    if current:
        sizes.add(min(max(current, minimum), most))
    return tuple(sorted(one for one in sizes if minimum <= one <= most))


def worthwhile(sizes: Ints, speed: Floats, keep: Ints) -> Floats:
    """Returns the speeds, with 0 for sizes that are hardly faster than a smaller one.

    `keep` has the size of each row that stays in any case, besides the smallest.
    """
    before = np.maximum.accumulate(speed, axis=1)
    smaller = np.concatenate([np.zeros((len(speed), 1)), before[:, :-1]], axis=1)
    stays = (speed >= smaller * SPEED_STEP) | (sizes == keep[:, None])
    return np.where(stays & (speed > 0), speed, 0.0)


def choose_sizes(problem: SizingProblem) -> Sizing:
    """Returns the sizes of the greatest total value that fit the budget.

    The `least` sizes of all jobs have to fit; the caller sees to that.
    """
    sizes, speed = problem.sizes, worthwhile(problem.sizes, problem.speed, problem.current)
    rows = np.arange(len(sizes))
    units = sizes * problem.units[:, None]
    # Jobs that may all be left with nothing can have a budget of nothing, at which no price clears.
    weight, price = prices.weights(units, speed, problem.left_s, max(problem.budget, 1))
    value = weight[:, None] * speed * _discount(problem, speed)
    value += _in_time(problem, speed, value)
    allowed = (speed > 0) & (sizes >= problem.least[:, None])
    allowed |= (sizes == problem.least[:, None]) & (sizes > 0)
    value = np.where(allowed, value, -np.inf)
    # A job that need not have anything may also get nothing.
    none = np.where(problem.least == 0, 0.0, -np.inf)[:, None]
    value = np.concatenate([none, value], axis=1)
    units = np.concatenate([np.zeros_like(none, np.int64), units], axis=1)
    found = knapsack.choose(units, value, problem.budget)
    full_sizes = np.concatenate([np.zeros_like(none, np.int64), sizes], axis=1)
    full_speed = np.concatenate([np.zeros_like(none), problem.speed], axis=1)
    return Sizing(
        full_sizes[rows, found.columns],
        full_speed[rows, found.columns],
        weight,
        price,
        found.gap,
    )


def _in_time(problem: SizingProblem, speed: Floats, value: Floats) -> Floats | float:
    """Returns what is added to the sizes with which a job ends before its deadline.

    That is more than all other values together, so as many deadlines are kept as can be; a job
    that cannot keep its own, or has not told what is left of it, is like one without.
    """
    if problem.due_s is None or not np.isfinite(problem.due_s[problem.ends]).any():
        return 0.0
    changes = problem.sizes != problem.current[:, None]
    takes_s = problem.left_s[:, None] / np.where(speed > 0, speed, 1.0)
    takes_s = takes_s * (1 + _DUE_MARGIN) + changes * problem.cost_s[:, None]
    is_said = problem.ends & np.isfinite(problem.due_s)
    is_kept = (speed > 0) & (takes_s <= problem.due_s[:, None]) & is_said[:, None]
    return np.where(is_kept, 1.0 + float(value.max(axis=1).sum()), 0.0)


def _discount(problem: SizingProblem, speed: Floats) -> Floats:
    """Returns which share of its speed a job has over the horizon, after the resize."""
    with np.errstate(divide="ignore"):
        left = np.where(speed > 0, problem.left_s[:, None] / np.where(speed > 0, speed, 1), np.inf)
    left = np.where(problem.ends[:, None], left, np.inf)
    longest = np.maximum(problem.horizon_s, _HORIZON_COSTS * problem.cost_s)[:, None]
    span = np.minimum(longest, np.maximum(left, 1.0))
    changes = (problem.sizes != problem.current[:, None]) & (problem.current > 0)[:, None]
    return np.where(changes, span / (span + problem.cost_s[:, None]), 1.0)


def horizon(horizon_s: float, cost_s: float) -> float:
    """Returns the time within which a resize of this cost has to pay off."""
    return max(horizon_s, _HORIZON_COSTS * cost_s)
