"""What is left of the cluster while a plan is made: thresholds, sums, and idle amounts by node.

Within a plan nodes only fill up, so for replicas of one shape the first node with room lies never
before the one found last: each shape keeps its place and moves forward only.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from swell.api.requests import CPU, MEMORY
from swell.autoscaler.needs import Needs
from swell.autoscaler.resource import ClusterResource

NOWHERE = -1

# Nodes looked at one by one before whole stretches are; how long a stretch is, growing fourfold.
_STEPS = 6
_STRETCH = 64
_STRETCH_GROWTH = 4


class Room:
    """Sums are exact integers; they change with `take`, nodes with `place`."""

    __slots__ = (
        "_idle",
        "_searches",
        "cluster",
        "cpu",
        "cpu_max",
        "gpu",
        "gpu_max",
        "memory",
        "memory_max",
    )

    def __init__(self, cluster: ClusterResource, max_load: Fraction) -> None:
        self.cluster = cluster
        cpu, memory = cluster.of(CPU), cluster.of(MEMORY)
        self.cpu, self.cpu_max = cpu.requested, int(cpu.total * max_load)
        self.memory, self.memory_max = memory.requested, int(memory.total * max_load)
        self.gpu, self.gpu_max = cluster.gpu.limited, cluster.gpu.total
        self._idle = {name: idle.copy() for name, idle in cluster.idle.items()}
        self._searches: dict[Needs, _Search] = {}

    @property
    def is_over(self) -> bool:
        """Whether more is asked of the cluster than there should be."""
        return self.cpu > self.cpu_max or self.memory > self.memory_max or self.gpu > self.gpu_max

    def take(self, cpu: int, memory: int, gpu: int, n: int) -> None:
        """Count n more replicas with these amounts; fewer if n is negative."""
        self.cpu += n * cpu
        self.memory += n * memory
        self.gpu += n * gpu

    def find(self, needs: Needs) -> int:
        """The first node, by name, that takes one such replica; NOWHERE when none does."""
        search = self._searches.get(needs)
        if search is None:
            search = self._searches[needs] = _Search(needs, self._idle, self.cluster)
        return search.first()

    def place(self, needs: Needs, node: int) -> None:
        """Put one replica on a node that `find` named."""
        for name, amount in needs.requests.items():
            self._idle[name][node] -= amount


class _Search:
    """The first fitting node for one shape of replica."""

    __slots__ = ("_accepted", "_accepts", "_at", "_columns", "_n", "_nodes", "_views")

    def __init__(
        self, needs: Needs, idle: dict[str, NDArray[np.int64]], cluster: ClusterResource
    ) -> None:
        wanted = needs.requests
        self._nodes = cluster.nodes
        self._n = len(cluster.nodes) if all(name in idle for name in wanted) else 0
        self._columns = [(idle[name], amount) for name, amount in wanted.items() if name in idle]
        # Shares memory with the columns: single values are read several times faster this way.
        self._views = [(column.data, amount) for column, amount in self._columns]
        self._accepts = needs.constraints.accept
        self._accepted = NOWHERE
        self._at = 0

    def first(self) -> int:
        """Where one replica fits now; asked again, it begins where it ended."""
        at, n = self._at, self._n
        for _ in range(_STEPS):
            if at >= n:
                break
            if self._fits(at):
                self._at = at
                return at
            at += 1
        while at < n:
            at = self._next_with_room(at)
            if at < n and self._fits(at):
                break
            at += 1
        self._at = at
        return at if at < n else NOWHERE

    def _fits(self, at: int) -> bool:
        for view, amount in self._views:
            if view[at] < amount:
                return False
        if at != self._accepted:
            if not self._accepts(self._nodes[at].node):
                return False
            self._accepted = at
        return True

    def _next_with_room(self, at: int) -> int:
        """The first node from here on that has the amounts, else the number of nodes."""
        length = _STRETCH
        while at < self._n:
            end = min(at + length, self._n)
            fitting = np.ones(end - at, np.bool_)
            for column, amount in self._columns:
                fitting &= column[at:end] >= amount
            found = int(fitting.argmax())
            if fitting[found]:
                return at + found
            at = end
            length *= _STRETCH_GROWTH
        return self._n
