"""Where replicas go when sizes are applied at once: the scheduler's part in a policy-only replay.

Jobs that keep their size stay. Others are placed anew, the largest first: on whole nodes, or on the
fullest node that takes them. Small jobs move away where that makes a whole node free, unless they
end before that pays off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Nodes = tuple[int, ...]  # the node of each replica


def place(
    held: Mapping[str, Nodes],
    wanted: Mapping[str, int],
    n_nodes: int,
    per_node: int,
    settled: frozenset[str] = frozenset(),
) -> dict[str, Nodes]:
    """Returns the nodes of all jobs; one that finds no room has none.

    The `settled` jobs do not move for others.
    """
    table = _Places(n_nodes, per_node, settled)
    todo = []
    for name, size in wanted.items():
        old = held.get(name, ())
        if size and size == len(old):
            table.put(name, old)
        elif size:
            todo.append((-size, name))
    for less, name in sorted(todo):
        table.put(name, table.find(-less, held.get(name, ())))
    return {name: table.jobs.get(name, ()) for name in wanted}


class _Places:
    """Free devices by node, and the jobs that are placed."""

    def __init__(self, n_nodes: int, per_node: int, settled: frozenset[str]) -> None:
        self.free = [per_node] * n_nodes
        self.jobs: dict[str, Nodes] = {}
        self._per_node = per_node
        self._settled = settled

    def put(self, name: str, nodes: Nodes) -> None:
        self.jobs[name] = nodes
        for node in nodes:
            self.free[node] -= 1

    def find(self, size: int, old: Nodes) -> Nodes:
        per_node = self._per_node
        if size > sum(self.free):
            return ()
        if size >= per_node:
            n_whole = -(-size // per_node)
            self._clear(n_whole)
            whole = [node for node, free in enumerate(self.free) if free == per_node]
            whole.sort(key=lambda node: (node not in old, node))
            if len(whole) >= n_whole:
                return _spread(whole[:n_whole], [per_node] * n_whole, size)
        else:
            fitting = [node for node, free in enumerate(self.free) if free >= size]
            if fitting:
                best = min(fitting, key=lambda node: (node not in old, self.free[node], node))
                return (best,) * size
        by_room = sorted(range(len(self.free)), key=lambda node: (-self.free[node], node))
        return _spread(by_room, [self.free[node] for node in by_room], size)

    def _clear(self, n_whole: int) -> None:
        """Move jobs within one node elsewhere until as many nodes are free, as far as possible."""
        while sum(free == self._per_node for free in self.free) < n_whole:
            if not self._clear_one():
                return

    def _clear_one(self) -> bool:
        fixed = {
            node
            for name, nodes in self.jobs.items()
            if len(set(nodes)) > 1 or name in self._settled
            for node in nodes
        }
        partly = [
            node
            for node, free in enumerate(self.free)
            if 0 < free < self._per_node and node not in fixed
        ]
        if not partly:
            return False
        emptiest = max(partly, key=lambda node: (self.free[node], -node))
        for name in [name for name, nodes in self.jobs.items() if emptiest in nodes]:
            size = len(self.jobs[name])
            others = [
                node
                for node, free in enumerate(self.free)
                if node != emptiest and size <= free < self._per_node
            ]
            if not others:
                return False
            best = min(others, key=lambda node: (self.free[node], node))
            self.free[emptiest] += size
            self.put(name, (best,) * size)
        return True


def _spread(nodes: Sequence[int], free: Sequence[int], size: int) -> Nodes:
    found: list[int] = []
    for node, room in zip(nodes, free, strict=True):
        found += [node] * min(room, size - len(found))
    return tuple(found) if len(found) == size else ()
