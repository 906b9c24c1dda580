"""The part of the cluster that is still free while a plan is made: sums, and idle amounts by node.

Within a plan nodes only fill up. So for replicas of one shape, the first node with room never lies
before the one found last: each shape keeps its position and only moves forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from swell.api.pod import Toleration
from swell.api.requests import CPU, MEMORY, PODS
from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.needs import Amounts, Constraints, Needs
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.peculiar import PeculiarRoles
from swell.autoscaler.policies.queue_room import QueueRoom

NOWHERE = -1

# Tolerates everything, so that only amounts decide.
_ANYWHERE = Constraints(tolerations=(Toleration(operator="Exists"),))
# More rounds than any plan has: no node limits replicas that ask for nothing.
_ENDLESS = 2**63
# A search looks at this many nodes one by one before it skips whole blocks of nodes.
_STEPS = 4
_BLOCK = 64


class Room:
    """The requested sums with their limits, the idle amounts of nodes, and the queues.

    `take` changes the sums, `place` the nodes, `charge` the queues. Sums are exact integers. Slots,
    because a plan reads these attributes once for every step of every role. `queues` is None where
    no queue limits anything, `peculiar` has the roles to which other pods of a node matter.
    """

    __slots__ = (
        "_ahead",
        "_idle",
        "_peculiar",
        "_searches",
        "cluster",
        "cpu",
        "cpu_max",
        "gpu",
        "gpu_max",
        "memory",
        "memory_max",
        "queues",
    )

    def __init__(
        self,
        cluster: ClusterResource,
        max_load: Fraction,
        queues: QueueRoom | None = None,
        peculiar: PeculiarRoles | None = None,
    ) -> None:
        self.cluster = cluster
        self.queues = queues
        self._peculiar = peculiar
        cpu, memory = cluster.of(CPU), cluster.of(MEMORY)
        self.cpu, self.cpu_max = cpu.requested, int(cpu.total * max_load)
        self.memory, self.memory_max = memory.requested, int(memory.total * max_load)
        # GPUs may be used completely, cpu and memory only up to `max_load`.
        self.gpu, self.gpu_max = cluster.gpu.limited, cluster.gpu.total
        # Copies: the snapshot is shared, and a plan fills nodes.
        self._idle = {name: _Idle(amounts) for name, amounts in cluster.idle.items()}
        self._idle[PODS] = _Idle(cluster.pod_slots)
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

    def queue_allows(self, role: RoleId) -> bool:
        return self.queues is None or self.queues.allows(role)

    def queue_rounds(self, roles: Sequence[RoleId], n: int) -> int:
        """Returns how many times, at most n, the queues take one replica of each role."""
        return n if self.queues is None or n < 1 else self.queues.rounds_left(roles, n)

    def charge(self, role: RoleId, n: int) -> None:
        if self.queues is not None:
            self.queues.charge(role, n)

    def is_peculiar(self, role: RoleId) -> bool:
        return self._peculiar is not None and role in self._peculiar

    def domain_of(self, role: RoleId) -> str:
        """Returns the part of the network that a role must stay in; empty if there is none."""
        return "" if self._peculiar is None else self._peculiar.domain_of(role)

    def find_for(self, role: RoleId, needs: Needs) -> int:
        """Returns the first node, by name, with room for one replica of this role, or NOWHERE."""
        if self._peculiar is None or role not in self._peculiar:
            return self.find(needs)
        fitting = self._peculiar.passing(role)
        for name, amount in (*needs.requests.items(), (PODS, 1)):
            if name not in self._idle:
                return NOWHERE
            fitting = fitting & (self._idle[name].amounts >= amount)
        found = int(fitting.argmax()) if len(fitting) else 0
        return found if len(fitting) and fitting[found] else NOWHERE

    def seat(self, role: RoleId, needs: Needs, n: int) -> None:
        """Let n replicas of a peculiar role that wait for a node keep others away from one.

        Their amounts count in the sums alone, as those of all replicas without a node.
        """
        for _ in range(n if self.is_peculiar(role) else 0):
            node = self.find_for(role, needs)
            if node == NOWHERE or self._peculiar is None:
                return
            self._peculiar.place(role, node)

    def place_for(self, role: RoleId, needs: Needs, node: int) -> None:
        """Put one replica of this role on a node that `find_for` returned."""
        self.place(needs, node)
        if self._peculiar is not None and role in self._peculiar:
            self._peculiar.place(role, node)

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
        self._idle[PODS].single[node] -= n

    def give_back(self, needs: Needs, node: int) -> None:
        """Count what one replica has on a node as free. Only before anything is searched for."""
        for name, amount in needs.requests.items():
            if name in self._idle:
                self._idle[name].give_back(node, amount)
        self._idle[PODS].give_back(node, 1)

    def promise(self, node: int, amounts: Amounts) -> None:
        """Keep amounts of a node for a pod that waits; there may be less than that left."""
        for name, amount in amounts.items():
            if name in self._idle:
                self._idle[name].single[node] -= amount
        self._idle[PODS].single[node] -= 1

    def rounds_left(self, placed: Iterable[tuple[Needs, int]]) -> int:
        """Returns how many times one replica of each fits on its node, all of them together."""
        wanted: dict[tuple[str, int], int] = {}
        for needs, node in placed:
            wanted[PODS, node] = wanted.get((PODS, node), 0) + 1
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

    def give_back(self, node: int, amount: int) -> None:
        self.single[node] += amount
        self.peaks[node // _BLOCK] = max(self.peaks[node // _BLOCK], self.single[node])

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
        self._wanted.append((idle[PODS], 1))
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
