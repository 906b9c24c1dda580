"""Jobs that come together: which are to be placed anew as a whole, on fewer nodes. Pure.

Replicas that come one after the other go where a device is free, so that a job which has grown
often lies on many nodes, and synchronises over a network what one node could do by itself. A job
that saves when it is asked can be stopped for a moment instead, and placed as a whole. This is done
where the speed that it gains is worth more than its start, at a resize above all: where programs
restart at every resize it costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from swell.api.requests import PODS
from swell.autoscaler.cluster_resource import ClusterResource, IntArray
from swell.autoscaler.goodput.sizing import HORIZON_S, horizon
from swell.autoscaler.goodput.tables import RESIZE_S
from swell.autoscaler.needs import Needs
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.pools import Pool
from swell.autoscaler.views import AutoscalerPod

# In one decision so many jobs are looked at, the largest first: each costs a look at all nodes.
_TRIED_MAX = 64
# A job that keeps its size has to gain this much: speeds that are predicted are not that exact.
_GAIN_MIN = 1.1


class MoveRequest(NamedTuple):
    """A role: its nodes by index now, none while it is stopped, and the size that it will have.

    `per_node` is how many replicas an empty node takes. `may_move` says whether it may be placed
    anew. `speed_on` returns its speed at that size by the number of nodes. `cost_s` is what a
    resize costs it, `left_s` what is left of it in seconds at speed 1.
    """

    id: RoleId
    needs: Needs
    pool: Pool
    per_node: int
    nodes: tuple[str, ...]
    size: int
    may_move: bool
    speed_on: Callable[[int], float]
    cost_s: float
    left_s: float


class Move(NamedTuple):
    """The nodes that a role would be on otherwise, and those that it will be on."""

    before: int
    after: int


def moves(requests: Sequence[MoveRequest], cluster: ClusterResource) -> dict[RoleId, Move]:
    """Returns the roles that are worth to be placed anew, the largest first."""
    floor = _Floor(cluster)
    found: dict[RoleId, Move] = {}
    for one in _largest_first(requests):
        stays = _in_place(one, floor)
        whole = _as_whole(one, floor) if one.may_move else None
        if whole is not None and len(whole) < len(stays) and _is_worth(one, stays, whole):
            found[one.id] = Move(len(stays), len(whole))
            floor.give_back(one.needs, one.nodes)
            floor.take(one, whole)
        else:
            floor.take(one, stays, beyond=one.nodes[: one.size])
    return found


def together(
    requests: Sequence[MoveRequest], cluster: ClusterResource, leaving: Sequence[AutoscalerPod]
) -> dict[RoleId, int]:
    """Returns how far roles may grow that one node could hold, where none takes as many as wanted.

    Across nodes such a role is hardly faster, and what is left over is worth more to larger ones.
    Nodes count as if the pods that are `leaving` had left.
    """
    floor = _Floor(cluster)
    for pod in leaving:
        floor.give_back(pod.needs, (pod.node,))
    found: dict[RoleId, int] = {}
    for one in _largest_first(requests):
        stays = _in_place(one, floor)
        if one.size > one.per_node or one.size <= len(one.nodes) or len(stays) <= 1:
            floor.take(one, stays, beyond=one.nodes[: one.size])
            continue
        size = _size_on_one(one, floor)
        found[one.id] = size
        if size > len(one.nodes):
            floor.give_back(one.needs, one.nodes)
            floor.take(one, _fewest(floor.room(one), size))
    return {one.id: found[one.id] for one in requests if found.get(one.id, one.size) < one.size}


def _size_on_one(one: MoveRequest, floor: _Floor) -> int:
    """Returns the largest size, at most the wanted one, that the role can have on one node."""
    room = floor.room(one)
    held: dict[int, int] = {}
    for node in one.nodes:
        at = floor.place_of(node)
        held[at] = held.get(at, 0) + 1
    best = len(one.nodes)
    if one.may_move or not one.nodes:
        for at, n in held.items():
            room[at] += n if at >= 0 else 0
        best = max(best, int(room.max(initial=0)))
    elif len(held) == 1 and -1 not in held:
        best += int(room[next(iter(held))])
    return min(best, one.size)


def _largest_first(requests: Sequence[MoveRequest]) -> list[MoveRequest]:
    """Returns the roles that change their size or are on more nodes than they need."""
    spread = [
        one
        for one in requests
        if len(one.nodes) != one.size or len(set(one.nodes)) > -(-one.size // one.per_node)
    ]
    return sorted(spread, key=lambda one: (-one.size, one.id))[:_TRIED_MAX]


def _is_worth(one: MoveRequest, stays: Mapping[int, int], whole: Mapping[int, int]) -> bool:
    before, after = one.speed_on(len(stays)), one.speed_on(len(whole))
    start_s = max(one.cost_s, RESIZE_S)
    if one.size == len(one.nodes):
        before *= _GAIN_MIN
        resize_s = 0.0
    else:
        resize_s = one.cost_s
    span_s = min(horizon(HORIZON_S, start_s), max(one.left_s / max(after, 1e-9), 1.0))
    return after * span_s / (span_s + start_s) >= before * span_s / (span_s + resize_s)


def _in_place(one: MoveRequest, floor: _Floor) -> dict[int, int]:
    """Returns the replicas by node where those that are there stay, and others come or go."""
    counts: dict[int, int] = {}
    for node in one.nodes[: one.size]:
        at = floor.place_of(node)
        counts[at] = counts.get(at, 0) + 1
    left = one.size - sum(counts.values())
    room = floor.room(one)
    for at in counts:
        n = min(left, int(room[at]) if at >= 0 else 0)
        counts[at] += n
        left -= n
        room[at] = 0
    for at, n in _fewest(room, left).items():
        counts[at] = counts.get(at, 0) + n
    return counts


def _as_whole(one: MoveRequest, floor: _Floor) -> dict[int, int] | None:
    """Returns the replicas by node if all of them are placed anew; None if there is no room."""
    room = floor.room(one)
    for node in one.nodes:
        at = floor.place_of(node)
        if at >= 0:
            room[at] += 1
    found = _fewest(room, one.size)
    return found if sum(found.values()) == one.size else None


def _fewest(room: IntArray, size: int) -> dict[int, int]:
    """Returns the fewest nodes that take so many: the tightest one, or else the roomiest first."""
    if size <= 0 or not len(room):
        return {}
    fitting = np.flatnonzero(room >= size)
    if len(fitting):
        return {int(fitting[room[fitting].argmin()]): size}
    found: dict[int, int] = {}
    for at in np.argsort(-room, kind="stable").tolist():
        n = min(int(room[at]), size - sum(found.values()))
        if n <= 0:
            break
        found[at] = n
    return found


class _Floor:
    """Counts what is free of each node while moves are chosen."""

    def __init__(self, cluster: ClusterResource) -> None:
        self._nodes = cluster.nodes
        self._places = {node.name: at for at, node in enumerate(cluster.nodes)}
        self._idle = {name: amounts.copy() for name, amounts in cluster.idle.items()}
        self._idle[PODS] = cluster.pod_slots.copy()
        self._open: dict[tuple[Needs, str], IntArray] = {}

    def place_of(self, node: str) -> int:
        return self._places.get(node, -1)

    def room(self, one: MoveRequest) -> IntArray:
        """Returns how many replicas each node takes besides what is there."""
        room = self._idle[PODS].copy()
        for name, amount in one.needs.requests.items():
            if amount > 0:
                room = np.minimum(room, self._idle[name] // amount)
        return np.maximum(room, 0) * self._accepting(one)

    def take(self, one: MoveRequest, counts: Mapping[int, int], beyond: Sequence[str] = ()) -> None:
        """Fills nodes with these replicas, without those that are on some of them already."""
        for at, n in counts.items():
            n_there = sum(self.place_of(node) == at for node in beyond)
            self._add(one.needs, at, n_there - n)

    def give_back(self, needs: Needs, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._add(needs, self.place_of(node), 1)

    def _add(self, needs: Needs, at: int, n: int) -> None:
        if at < 0:
            return
        self._idle[PODS][at] += n
        for name, amount in needs.requests.items():
            if name in self._idle:
                self._idle[name][at] += n * amount

    def _accepting(self, one: MoveRequest) -> IntArray:
        key = (one.needs, one.pool.name)
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = np.zeros(len(self._nodes), np.int64)
            for at in one.pool.positions:
                found[at] = one.needs.constraints.accept(self._nodes[at].node)
        return found
