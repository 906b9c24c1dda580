"""How far roles may grow without lying on more nodes than they need. Pure.

Where no node, or no empty ones, are left for a role that is worth more, others that keep their size
on one node may go elsewhere: a few small roles on as many nodes keep all large ones apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.goodput.sizing import HORIZON_S
from swell.autoscaler.goodput.tables import RESIZE_S
from swell.autoscaler.policies.floor import Floor, MoveRequest, in_place, largest_first
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.views import AutoscalerPod

# For one role at most so many nodes are emptied. What that costs is at most this share of what the
# role gains within the time in which a resize has to pay off: gains are predicted, costs are sure.
_CLEARED_MAX, _CLEARING_SHARE = 4, 0.1
# Of many nodes the ones with the least to be moved are tried.
_NODES_TRIED_MAX = 16


class Gathering(NamedTuple):
    """How far roles may grow that would lie on more nodes than they need, and what would help.

    `most` has the roles that no node, or no whole nodes, take at the wanted size. `cleared` has
    roles that are to be placed anew elsewhere, because that makes whole nodes free for others.
    """

    most: dict[RoleId, int]
    cleared: tuple[RoleId, ...]


def together(
    requests: Sequence[MoveRequest],
    cluster: ClusterResource,
    leaving: Sequence[AutoscalerPod],
    *,
    clears: bool,
) -> Gathering:
    """Returns how far roles may grow without lying on more nodes than they need.

    Across nodes a small role is hardly faster, and one that has measured itself there does not try
    more. So a role grows on one node, or on its own and empty ones. Nodes count as if the pods that
    are `leaving` had left, and with `clears` as if the roles that are cleared had.
    """
    floor = Floor(cluster)
    for pod in leaving:
        floor.give_back(pod.needs, (pod.node,))
    settled = _Settled(requests, floor)
    most: dict[RoleId, int] = {}
    cleared: list[RoleId] = []
    for one in largest_first(requests):
        size = one.size
        if size > len(one.nodes) and (size > one.per_node or len(in_place(one, floor)) > 1):
            size = _largest_together(one, one.size, floor)
            if size < one.size and one.size > one.per_node:
                moved = settled.clear(one, floor)
                cleared += moved
                if moved and clears:
                    size = one.size
        if size < one.size:
            most[one.id] = size
        floor.settle(one, size)
    return Gathering({one.id: most[one.id] for one in requests if one.id in most}, tuple(cleared))


def _largest_together(one: MoveRequest, wanted: int, floor: Floor) -> int:
    """Returns the largest size, at most the wanted one, that needs no further nodes than it must.

    That is at least what the role has.
    """
    sizes = {wanted, *(size for size in one.sizes if size < wanted)}
    for size in sorted(sizes, reverse=True):
        if size <= len(one.nodes):
            break
        if size <= one.per_node:
            if size_on_one(one, size, floor) >= size:
                return size
        elif size <= floor.room_together(one):
            return size
    return len(one.nodes)


class _Settled:
    """Finds nodes that become empty if roles that keep their size on one node go elsewhere."""

    def __init__(self, requests: Sequence[MoveRequest], floor: Floor) -> None:
        self._on: dict[int, list[MoveRequest]] = {}
        for one in requests:
            is_small = len(one.nodes) == one.size < one.per_node and len(set(one.nodes)) == 1
            if is_small and one.may_clear:
                self._on.setdefault(floor.place_of(one.nodes[0]), []).append(one)

    def clear(self, one: MoveRequest, floor: Floor) -> list[RoleId]:
        """Returns the moves that make so many nodes empty as a role lacks; none if not all can be.

        They may cost a tenth of what the role gains within the time in which that has to pay off.
        """
        trial, found = floor.copy(), list[RoleId]()
        spent = 0.0
        for _ in range(_CLEARED_MAX):
            if one.size <= trial.room_together(one):
                floor.become(trial)
                for members in self._on.values():
                    members[:] = [other for other in members if other.id not in found]
                return found
            moved = self._clear_one(one, trial)
            spent += sum(other.size * max(other.cost_s, RESIZE_S) for other in moved)
            if not moved or spent > _CLEARING_SHARE * HORIZON_S * (one.size - len(one.nodes)):
                break
            found += [other.id for other in moved]
        return []

    def _clear_one(self, one: MoveRequest, floor: Floor) -> list[MoveRequest]:
        """Empties the node that has the least of such roles and nothing else."""
        own = set(map(floor.place_of, one.nodes))
        n_held = {at: sum(other.size for other in some) for at, some in self._on.items() if some}
        tried = [at for at in sorted(n_held, key=lambda at: (n_held[at], at)) if at not in own]
        for at in tried[:_NODES_TRIED_MAX]:
            members = sorted(self._on[at], key=lambda other: -other.size)
            trial = floor.copy()
            if not all(other.lasts for other in members):
                continue
            if all(trial.place_beside(other, at) for other in members) and trial.empty(one)[at]:
                floor.become(trial)
                return members
        return []


def size_on_one(one: MoveRequest, size: int, floor: Floor) -> int:
    """Returns the largest size, at most the given one, that the role can have on one node."""
    room = floor.room(one)
    held = Counter(map(floor.place_of, one.nodes))
    best = len(one.nodes)
    if one.may_move or not one.nodes:
        for at, n in held.items():
            room[at] += n if at >= 0 else 0
        best = max(best, int(room.max(initial=0)))
    elif len(held) == 1 and -1 not in held:
        best += int(room[next(iter(held))])
    return min(best, size)
