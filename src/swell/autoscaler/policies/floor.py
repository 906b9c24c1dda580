"""The free room of nodes while it is decided which roles lie where. Pure.

`Floor` counts it: roles are put down, taken up and tried elsewhere, and nothing but the floor
changes. `with_room_kept` takes from a cluster what jobs that are just being placed anew need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swell.api.requests import CPU, PODS
from swell.autoscaler.cluster_resource import ClusterResource, IntArray, Usage
from swell.autoscaler.goodput.sizing import HORIZON_S
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.needs import Needs
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.pools import Pool

# In one decision so many jobs are looked at, the largest first: each costs a look at all nodes.
_TRIED_MAX = 64


class MoveRequest(NamedTuple):
    """A role: its nodes by index now, none while it is stopped, and the size that it will have.

    `per_node` is how many replicas an empty node takes, `sizes` what it may have. `may_move` says
    whether it may be placed anew, `may_clear` whether it may be for the sake of others. `speed_on`
    returns its speed at that size by the number of nodes. `cost_s` is what a resize costs it,
    `left_s` what is left of it in seconds at speed 1.
    """

    id: RoleId
    needs: Needs
    pool: Pool
    per_node: int
    nodes: tuple[str, ...]
    size: int
    sizes: tuple[int, ...]
    may_move: bool
    may_clear: bool
    speed_on: Callable[[int], float]
    cost_s: float
    left_s: float

    @property
    def lasts(self) -> bool:
        """Whether it has told that it lasts for longer than a move takes to pay off."""
        return HORIZON_S < self.left_s / max(self.speed_on(1), 1e-9) < inf


def largest_first(requests: Sequence[MoveRequest]) -> list[MoveRequest]:
    """Returns the roles that change their size or are on more nodes than they need."""
    spread = [
        one
        for one in requests
        if len(one.nodes) != one.size or len(set(one.nodes)) > -(-one.size // one.per_node)
    ]
    return sorted(spread, key=lambda one: (-one.size, one.id))[:_TRIED_MAX]


def in_place(one: MoveRequest, floor: Floor) -> dict[int, int]:
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
    for at, n in fewest(room, left).items():
        counts[at] = counts.get(at, 0) + n
    return counts


def as_whole(one: MoveRequest, floor: Floor) -> dict[int, int] | None:
    """Returns the replicas by node if all of them are placed anew; None if there is no room."""
    room = floor.room(one)
    for node in one.nodes:
        at = floor.place_of(node)
        if at >= 0:
            room[at] += 1
    found = fewest(room, one.size)
    return found if sum(found.values()) == one.size else None


def fewest(room: IntArray, size: int) -> dict[int, int]:
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


def n_away(state: RoleState) -> int:
    """Returns how many replicas of a role that is placed anew have no node at the moment."""
    return max(state.view.target - len(_nodes_of(state)), 0)


def _nodes_of(state: RoleState) -> list[str]:
    return [pod.node for pod in state.pods if pod.is_bound and not pod.is_finished]


def with_room_kept(jobs: Iterable[JobState], cluster: ClusterResource) -> ClusterResource:
    """Returns the cluster without the room of jobs that are being placed anew.

    They have no pods for some seconds, in which others would take what they were stopped for.
    """
    moving = [state for job in jobs if job.view.is_moving for state in job.roles]
    if not moving:
        return cluster
    floor = Floor(cluster)
    for state in sorted(moving, key=lambda one: -one.view.target):
        floor.keep(state.view.needs, state.view.target, _nodes_of(state))
    return floor.cluster_left(cluster)


class Floor:
    """Counts what is free of each node while moves are chosen."""

    def __init__(self, cluster: ClusterResource) -> None:
        self._nodes = cluster.nodes
        self._places = {node.name: at for at, node in enumerate(cluster.nodes)}
        self.idle = {name: amounts.copy() for name, amounts in cluster.idle.items()}
        self.idle[PODS] = cluster.pod_slots.copy()
        self._nothing = np.zeros(len(cluster.nodes), np.int64)
        self._open: dict[tuple[Needs, str], IntArray] = {}
        self._whole: dict[str, IntArray] = {}
        self._kept: list[tuple[Needs, int]] = []

    def copy(self) -> Floor:
        """Returns a floor that can be filled without this one being changed."""
        other = copy(self)
        other.idle = {name: amounts.copy() for name, amounts in self.idle.items()}
        return other

    def become(self, other: Floor) -> None:
        self.idle = other.idle

    def place_of(self, node: str) -> int:
        return self._places.get(node, -1)

    def room_together(self, one: MoveRequest) -> int:
        """Returns how many replicas of a role its own nodes and empty ones take, with its own."""
        is_usable = self.empty(one)
        for node in one.nodes:
            is_usable[self.place_of(node)] |= self.place_of(node) >= 0
        return int(self.room(one)[is_usable].sum()) + len(one.nodes)

    def empty(self, one: MoveRequest) -> NDArray[np.bool_]:
        """Returns which nodes have all their devices free; cpus are not joined by any link."""
        resource = one.pool.resource
        if resource == CPU:
            return np.ones(len(self._nodes), np.bool_)
        whole = self._whole.get(resource)
        if whole is None:
            amounts = [node.allocatable.get(resource, 0) for node in self._nodes]
            whole = self._whole[resource] = np.array(amounts, np.int64)
        return (whole > 0) & (self.idle[resource] >= whole)

    def place_beside(self, one: MoveRequest, at: int) -> bool:
        """Moves a role from a node to the tightest other one that is in use; whether one is."""
        room = self.room(one)
        room[self.empty(one)] = 0
        room[at] = 0
        found = fewest(room, one.size)
        if len(found) != 1:
            return False
        self.give_back(one.needs, one.nodes)
        self._add(one.needs, next(iter(found)), -one.size)
        return True

    def settle(self, one: MoveRequest, size: int) -> None:
        """Fills nodes with a role that gets this size."""
        one = one._replace(size=size)
        if size > len(one.nodes) and size <= one.per_node and len(in_place(one, self)) > 1:
            self.give_back(one.needs, one.nodes)
            self.take(one, fewest(self.room(one), size))
        else:
            self.take(one, in_place(one, self), beyond=one.nodes[:size])

    def room(self, one: MoveRequest) -> IntArray:
        """Returns how many replicas each node takes besides what is there."""
        return self._room(one.needs, one.pool.name, one.pool.positions)

    def _room(self, needs: Needs, pool: str, positions: Sequence[int]) -> IntArray:
        room = self.idle[PODS].copy()
        for name, amount in needs.requests.items():
            if amount > 0:
                room = np.minimum(room, self.idle.get(name, self._nothing) // amount)
        return np.maximum(room, 0) * self._accepting(needs, pool, positions)

    def keep(self, needs: Needs, size: int, nodes: Sequence[str]) -> None:
        """Takes the room that a role needs as a whole, less what its own pods still have of it."""
        room = self._room(needs, "", range(len(self._nodes)))
        held = Counter(map(self.place_of, nodes))
        for at, n in held.items():
            room[at] += n if at >= 0 else 0
        for at, n in fewest(room, size).items():
            self._add(needs, at, -max(n - held[at], 0))
            self._kept.append((needs, max(n - held[at], 0)))

    def cluster_left(self, cluster: ClusterResource) -> ClusterResource:
        """Returns the cluster with what is free now, and what was kept as requested."""
        usage = dict(cluster.usage)
        for needs, n in self._kept:
            for name, amount in needs.requests.items():
                old = usage.get(name, Usage())
                more = n * amount
                usage[name] = replace(
                    old, requested=old.requested + more, limited=old.limited + more
                )
        gpus = sum(n * needs.gpus for needs, n in self._kept)
        gpu = replace(
            cluster.gpu, requested=cluster.gpu.requested + gpus, limited=cluster.gpu.limited + gpus
        )
        slots = self.idle.pop(PODS)
        return replace(cluster, usage=usage, gpu=gpu, idle=self.idle, pod_slots=slots)

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
        self.idle[PODS][at] += n
        for name, amount in needs.requests.items():
            if name in self.idle:
                self.idle[name][at] += n * amount

    def _accepting(self, needs: Needs, pool: str, positions: Sequence[int]) -> IntArray:
        key = (needs, pool)
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = np.zeros(len(self._nodes), np.int64)
            for at in positions:
                found[at] = needs.constraints.accept(self._nodes[at].node)
        return found
