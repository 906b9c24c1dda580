"""The part of the cluster that is still free while a plan is made: sums, and idle amounts by node.

Within a plan nodes only fill up. So for replicas of one shape, the first node with room never lies
before the one found last: each shape keeps its position and only moves forward.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from swell.api.pod import Toleration
from swell.api.requests import CPU, MEMORY
from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.needs import Constraints, Needs

NOWHERE = -1

# Tolerates everything, so that only amounts decide.
_ANYWHERE = Constraints(tolerations=(Toleration(operator="Exists"),))
# More rounds than any plan has: no node limits replicas that ask for nothing.
_ENDLESS = 2**63
# A search looks at this many nodes one by one before it skips whole blocks of nodes.
_STEPS = 4
_BLOCK = 64


class Room:
    """The requested sums with their limits, and the idle amounts of nodes.

    `take` changes the sums, `place` the nodes. Sums are exact integers. Slots, because a plan reads
    these attributes once for every step of every role.
    """

    __slots__ = (
        "_ahead",
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
        # GPUs may be used completely, cpu and memory only up to `max_load`.
        self.gpu, self.gpu_max = cluster.gpu.limited, cluster.gpu.total
        # Copies: the snapshot is shared, and a plan fills nodes.
        self._idle = {name: _Idle(amounts) for name, amounts in cluster.idle.items()}
        self._searches: dict[Needs, _Search] = {}
        self._ahead: dict[tuple[tuple[str, int], ...], _Search] = {}

    @property
    def is_over(self) -> bool:
        """Whether the cluster is over-committed in some resource."""
        return self.cpu > self.cpu_max or self.memory > self.memory_max or self.gpu > self.gpu_max

    def take(self, cpu: int, memory: int, gpu: int, n: int) -> None:
        """Add the amounts of n replicas to the sums; a negative n takes them away."""
        self.cpu += n * cpu
        self.memory += n * memory
        self.gpu += n * gpu

    def find(self, needs: Needs) -> int:
        """Returns the first node, by name, with room for one replica, or NOWHERE."""
        search = self._searches.get(needs)
        if search is None:
            search = self._searches[needs] = self._new_search(needs)
        return search.first()

    def place(self, needs: Needs, node: int, n: int = 1) -> None:
        """Put n replicas on a node that `find` returned."""
        for name, amount in needs.requests.items():
            self._idle[name].single[node] -= n * amount

    def rounds_left(self, placed: Iterable[tuple[Needs, int]]) -> int:
        """Returns how many times one replica of each fits on its node, all of them together."""
        wanted: dict[tuple[str, int], int] = {}
        for needs, node in placed:
            for name, amount in needs.requests.items():
                wanted[name, node] = wanted.get((name, node), 0) + amount
        left = (self._idle[name].single[node] // n for (name, node), n in wanted.items())
        return min(left, default=_ENDLESS)

    def _new_search(self, needs: Needs) -> _Search:
        """Returns a search that skips nodes without room for anything of about this size."""
        amounts = {name: _rounded_down(amount) for name, amount in needs.requests.items()}
        size = tuple(sorted(amounts.items()))
        ahead = self._ahead.get(size)
        if ahead is None:
            anywhere = Needs(amounts, {}, 0, _ANYWHERE)
            ahead = self._ahead[size] = _Search(anywhere, self._idle, self.cluster, None)
        return _Search(needs, self._idle, self.cluster, ahead)


def _rounded_down(amount: int) -> int:
    """Keep only the first three binary digits of an amount, so that few sizes stand for all."""
    shift = max(amount.bit_length() - 3, 0)
    return amount >> shift << shift


class _Idle:
    """The idle amounts of one resource by node, and an upper bound for each block of nodes.

    Nodes fill up without the bounds (`peaks`) being lowered; a search that fails in a block lowers
    them there.
    """

    __slots__ = ("_peaks", "amounts", "peaks", "single")

    def __init__(self, amounts: NDArray[np.int64]) -> None:
        self.amounts = amounts.copy()
        starts = range(0, len(amounts), _BLOCK)
        self._peaks = np.array([amounts[at : at + _BLOCK].max() for at in starts], np.int64)
        # Memory views of the same arrays: reading one value is several times faster than by numpy.
        self.single = self.amounts.data
        self.peaks = self._peaks.data

    def lower_peak(self, block: int) -> None:
        self._peaks[block] = self.amounts[block * _BLOCK : (block + 1) * _BLOCK].max()


class _Search:
    """Finds the first node with room for one shape of replica.

    `ahead` searches for a somewhat smaller shape that accepts any node. Where that does not fit,
    this one does not either, and all shapes of about the same size share it.
    """

    __slots__ = ("_accepted", "_accepts", "_ahead", "_at", "_n", "_nodes", "_wanted")

    def __init__(
        self,
        needs: Needs,
        idle: dict[str, _Idle],
        cluster: ClusterResource,
        ahead: _Search | None,
    ) -> None:
        wanted = needs.requests
        self._nodes = cluster.nodes
        # A resource that no node offers fits nowhere.
        self._n = len(cluster.nodes) if all(name in idle for name in wanted) else 0
        self._wanted = [(idle[name], amount) for name, amount in wanted.items() if name in idle]
        self._accepts = needs.constraints.accept
        self._accepted = NOWHERE
        self._ahead = ahead
        self._at = 0

    def first(self) -> int:
        """Returns the first node with room now. The next call begins where this one ended."""
        at, n = self._at, self._n
        # Mostly the node found last still has room.
        if at < n and self._fits(at):
            return at
        # Moved forward by all shapes of about this size, so most of the full nodes are skipped.
        if self._ahead is not None:
            first = self._ahead.first()
            at = n if first == NOWHERE else max(at, first)
        n_steps = 0
        while at < n and not self._fits(at):
            at += 1
            n_steps += 1
            if n_steps >= _STEPS:
                at = self._next_with_room(at)
        self._at = at
        return at if at < n else NOWHERE

    def _fits(self, at: int) -> bool:
        for idle, amount in self._wanted:
            if idle.single[at] < amount:
                return False
        # Selectors and taints do not change within a plan: the last accepted node is remembered.
        if at != self._accepted:
            if not self._accepts(self._nodes[at].node):
                return False
            self._accepted = at
        return True

    def _next_with_room(self, at: int) -> int:
        """Returns the first node from here on that has the amounts, or else the number of nodes."""
        while at < self._n:
            block = at // _BLOCK
            end = (block + 1) * _BLOCK
            for idle, amount in self._wanted:
                if idle.peaks[block] < amount:
                    break
            else:
                found = self._in_stretch(at, min(end, self._n))
                if found != NOWHERE:
                    return found
                for idle, _ in self._wanted:
                    idle.lower_peak(block)
            at = end
        return self._n

    def _in_stretch(self, at: int, end: int) -> int:
        fitting: NDArray[np.bool_] | None = None
        for idle, amount in self._wanted:
            has_room = idle.amounts[at:end] >= amount
            fitting = has_room if fitting is None else fitting & has_room
        if fitting is None:
            return at  # a replica that asks for nothing fits anywhere
        found = int(fitting.argmax())
        return at + found if fitting[found] else NOWHERE
