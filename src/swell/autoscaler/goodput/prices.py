"""The price of a GPU, and what a job's progress is worth by it. Pure, numpy only.

At a price, a job that pays for its time in the system (1 a second) and for its GPUs wants the size
a with the least cost of a unit of work, (1 + price * a) / speed(a). The clearing price is the least
at which all wishes together fit. A fluid look-ahead lets jobs leave in the order in which they
finish, with a new price each time: a job's own price is the mean over its life, and its weight is
its least cost at that price. Short jobs live through the dear times, so their progress is worth
more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.autoscaler.goodput.stepmodel import Floats, Ints

# The look-ahead has at most about this many stages; with more jobs several leave in one stage.
_STAGES = 64
# A job that is nearly done counts with this many seconds: its report is not that exact.
_LEFT_MIN_S = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class Wishes:
    """The sizes that jobs want by price: a row for each job, from dear to cheap.

    `units` are the GPUs and `speed` the speeds of the sizes on the row's hull, the cheapest-to-run
    first; `limits[:, k]` is the price below which size k + 1 is preferred to size k.
    """

    units: Ints
    speed: Floats
    limits: Floats

    def chosen(self, price: float) -> Ints:
        """Returns the place on its row of the size each job wants at this price."""
        places: Ints = (self.limits > price).sum(axis=1)
        return places


def wishes(units: Ints, speed: Floats) -> Wishes:
    """Returns what jobs want by price, from the units and speeds of their sizes (0: no size)."""
    n_jobs = len(units)
    rows = np.arange(n_jobs)
    usable = speed > 0
    per_speed = np.where(usable, 1.0 / np.where(usable, speed, 1.0), np.inf)
    cost = np.where(usable, units * np.where(usable, per_speed, 0.0), np.inf)
    at = np.argmin(per_speed, axis=1)  # what costs nothing is wanted as fast as possible
    found_at, found_limit = [at], []
    while True:
        here_cost, here_slow = cost[rows, at][:, None], per_speed[rows, at][:, None]
        gains = usable & (cost < here_cost * (1 - 1e-12))
        with np.errstate(invalid="ignore", divide="ignore"):
            limit = np.where(gains, (per_speed - here_slow) / (here_cost - cost), np.inf)
        nearest = np.argmin(limit, axis=1)
        price = limit[rows, nearest]
        moved = np.isfinite(price)
        if not moved.any():
            break
        at = np.where(moved, nearest, at)
        found_at.append(at)
        found_limit.append(np.where(moved, price, 0.0))
    # From dear to cheap: reversed. Rows that ended early repeat their last size in front.
    places = np.stack(found_at[::-1], axis=1)
    limits = np.zeros((n_jobs, len(found_limit)))
    if found_limit:
        limits = np.stack(found_limit[::-1], axis=1)
        # A repeated size is left at once: at every price.
        limits = np.where(places[:, :-1] == places[:, 1:], np.inf, limits)
    return Wishes(
        np.take_along_axis(units, places, 1), np.take_along_axis(speed, places, 1), limits
    )


def weights(units: Ints, speed: Floats, left_s: Floats, budget: int) -> tuple[Floats, float]:
    """Returns what each job's progress is worth, and the clearing price now.

    `left_s` is the remaining work of each job in seconds at speed 1.
    """
    if not len(units):
        return np.zeros(0), 0.0
    wish = wishes(units, speed)
    prices, now = _life_prices(wish, np.maximum(left_s, _LEFT_MIN_S), budget)
    with np.errstate(divide="ignore"):
        cost = np.where(
            speed > 0, (1.0 + prices[:, None] * units) / np.where(speed > 0, speed, 1.0), np.inf
        )
    return cost.min(axis=1), now


def _life_prices(wish: Wishes, left_s: Floats, budget: int) -> tuple[Floats, float]:
    """Returns the mean price over each job's life, and the price now."""
    n_jobs = len(left_s)
    rows = np.arange(n_jobs)
    # Breakpoints of all jobs by falling price: there a job adds this much to the demand.
    added = np.diff(wish.units, axis=1)
    flat = np.argsort(-wish.limits, axis=None, kind="stable")
    limits = wish.limits.ravel()[flat]
    of_job = np.repeat(rows, wish.limits.shape[1])[flat]
    steps = added.ravel()[flat]
    left, spent, life = left_s.copy(), np.zeros(n_jobs), np.zeros(n_jobs)
    alive = np.ones(n_jobs, bool)
    first = 0.0
    per_stage = -(-n_jobs // _STAGES)
    for stage in range(n_jobs):
        idx = np.flatnonzero(alive)
        if not len(idx):
            break
        if stage:
            # Breakpoints of jobs that have left are dropped: each stage has fewer to add up.
            stays = alive[of_job]
            limits, of_job, steps = limits[stays], of_job[stays], steps[stays]
        least = int(wish.units[idx, 0].sum())
        price = _clearing(limits, least + np.cumsum(steps), least, budget)
        if stage == 0:
            first = price
        at = (wish.limits[idx] > price).sum(axis=1)
        used = wish.units[idx, at].sum()
        rate = wish.speed[idx, at] * min(1.0, budget / max(used, 1))
        times = left[idx] / rate
        k = min(per_stage, len(idx)) - 1
        passed = np.partition(times, k)[k] if k else times.min()
        lived = np.minimum(times, passed)
        spent[idx] += price * lived
        life[idx] += lived
        left[idx] -= rate * lived
        alive[idx[times <= passed * (1 + 1e-9)]] = False
    return spent / np.maximum(life, 1e-9), first


def _clearing(limits: Floats, demand: Floats, least: int, budget: int) -> float:
    """Returns the least price at which the demand fits; `demand[i]` is that just below limit i."""
    if least > budget:
        # Even the smallest wishes do not fit: dearer than every size anybody would give up.
        dearest = limits[np.isfinite(limits)]
        return float(dearest[0]) * least / budget if len(dearest) else 1.0
    beyond = np.searchsorted(demand, budget, side="right")
    return float(limits[beyond]) if beyond < len(limits) else 0.0
