"""Jobs that come together: which are to be placed anew as a whole, on fewer nodes. Pure.

Replicas that come one after the other go where a device is free, so that a job which has grown
often lies on many nodes, and synchronises over a network what one node could do by itself. A job
that saves when it is asked can be stopped for a moment instead, and placed as a whole. This is done
where the speed that it gains is worth more than its start, at a resize above all: where programs
restart at every resize it costs nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.goodput.sizing import HORIZON_S, horizon
from swell.autoscaler.goodput.tables import RESIZE_S
from swell.autoscaler.policies.floor import Floor, MoveRequest, as_whole, in_place, largest_first
from swell.autoscaler.policies.interface import RoleId

# A job that keeps its size has to gain this much: speeds that are predicted are not that exact.
_GAIN_MIN = 1.1


class Move(NamedTuple):
    """The nodes that a role would be on otherwise, and those that it will be on."""

    before: int
    after: int


def moves(requests: Sequence[MoveRequest], cluster: ClusterResource) -> dict[RoleId, Move]:
    """Returns the roles that are worth to be placed anew, the largest first."""
    floor = Floor(cluster)
    found: dict[RoleId, Move] = {}
    for one in largest_first(requests):
        stays = in_place(one, floor)
        whole = as_whole(one, floor) if one.may_move else None
        if whole is not None and len(whole) < len(stays) and _is_worth(one, stays, whole):
            found[one.id] = Move(len(stays), len(whole))
            floor.give_back(one.needs, one.nodes)
            floor.take(one, whole)
        else:
            floor.take(one, stays, beyond=one.nodes[: one.size])
    return found


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
