"""Prices of victims: the work that they have not saved decides between victims of equal rank.

The order of victims is: what takes least from its job (a surplus pod before a whole gang), how near
the queue is, the priority of the job, the price, and only then age and what other plugins say.
Where there is no present time, as in a plan made from files, nothing has a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from swell.scheduler.eviction_units import EvictionCost, EvictionUnit
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Places, Vector
from swell.scheduler.model.tasks import Task
from swell.scheduler.model.unsaved import UnsavedWork, gpu_places, unsaved_work

if TYPE_CHECKING:
    from swell.scheduler.session import Session

# Of how many nodes that could be cleared the prices are compared. Each costs a search of its own;
# as many domains are compared by default.
NODES_COMPARED: Final = 8
_NOTHING = UnsavedWork()


class VictimPrices:
    """Prices of jobs and units in one session; those of whole jobs are computed once."""

    def __init__(self, session: Session) -> None:
        self._votes = session.votes
        self._now = session.now
        self._gpus = gpu_places(session.snapshot.dimensions)
        self._jobs: dict[str, UnsavedWork] = {}

    @property
    def is_on(self) -> bool:
        return self._now is not None

    def of_job(self, job: JobInfo) -> UnsavedWork:
        found = self._jobs.get(job.key)
        if found is None:
            found = self._jobs[job.key] = self._work(list(job.evictable()))
        return found

    def of_unit(self, unit: EvictionUnit) -> UnsavedWork:
        """Returns the price of a unit, but no less than of those that must leave before it.

        So a unit never comes before one that it needs evicted.
        """
        return max((self._work(unit.tasks), *map(self.of_unit, unit.after)))

    def in_order(self, preemptor: Task, units: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        """Sorts units, which come in the order of importance, with their price in its place."""
        if self._now is None or len(units) < 2:
            return list(units)
        ranks: dict[str, tuple[object, ...]] = {}
        for unit in units:
            if unit.job.key not in ranks:
                ranks[unit.job.key] = self._votes.victim_rank(preemptor, unit.job)
        # Sorting is stable: the key that counts most comes last, and equal ones keep their order.
        found = sorted(units, key=self.of_unit)
        found.sort(key=lambda unit: ranks[unit.job.key], reverse=True)
        found.sort(key=lambda unit: unit.cost)
        return found

    def cost(self, units: Sequence[EvictionUnit]) -> tuple[int, int, UnsavedWork]:
        """Returns what these evictions cost: whole gangs, the highest priority, and work."""
        if not units:
            return 0, 0, _NOTHING
        n_whole = sum(unit.cost is EvictionCost.WHOLE for unit in units)
        return n_whole, max(unit.job.priority for unit in units), self.work(units)

    def work(self, units: Sequence[EvictionUnit]) -> UnsavedWork:
        """Returns what these units lose together."""
        return self._work([task for unit in units for task in unit.tasks])

    def floors(self) -> NodeFloors:
        return NodeFloors(self)

    def _work(self, tasks: Sequence[Task]) -> UnsavedWork:
        return _NOTHING if self._now is None else unsaved_work(tasks, self._now, self._gpus)


class NodeFloors:
    """The cheapest victim on each node: its priority and price, by which nodes are tried first."""

    def __init__(self, prices: VictimPrices) -> None:
        self._prices = prices
        self._keys: dict[int, tuple[int, float, float]] = {}

    def note(self, node: int, job: JobInfo) -> None:
        if self._prices.is_on:
            key = (job.priority, *self._prices.of_job(job))
            self._keys[node] = min(self._keys.get(node, key), key)

    def forget(self, node: int) -> None:
        self._keys.pop(node, None)

    def keys(self, nodes: Places) -> tuple[Vector, ...]:
        """Returns sort keys of these nodes, the last of which counts first."""
        if not self._prices.is_on:
            return ()
        none = (0, 0.0, 0.0)  # free room costs nothing
        rows = np.array([self._keys.get(int(node), none) for node in nodes], dtype=np.float64)
        return tuple(rows.reshape(-1, 3).T[::-1])
