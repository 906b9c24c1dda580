"""What the state of a node means for the pods on it: lost, fenced, a broken accelerator.

Of a node that is not in the world nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.core import Node
from swell.operator.aitrainingjob.settings import Settings
from swell.operator.aitrainingjob.world import Replica, World
from swell.operator.framework import fencing
from swell.operator.framework.fencing import NodeState


def is_lost(replica: Replica, world: World, now: float) -> bool:
    """Whether the pod's node is gone, or has not been ready for too long."""
    state = world.node_of(replica)
    if state is None:
        return False
    at = _lost_at(state, world.settings)
    return state.node is None or (at is not None and at <= now)


def will_be_lost_at(replica: Replica, world: World) -> float | None:
    """When the pod's node will count as lost, unless it recovers: the time to look again."""
    state = world.node_of(replica)
    return _lost_at(state, world.settings) if state else None


def is_fenced(replica: Replica, world: World, now: float) -> bool:
    """Whether the pod's processes certainly no longer run, so that its record may be dropped."""
    return fencing.is_fenced(replica.pod, world.nodes, world.settings.node_fence_after_s, now)


def fenced_at(replica: Replica, world: World, now: float) -> float | None:
    """When the pod's node counts as fenced; None while nothing points that way."""
    return fencing.fenced_at(replica.pod, world.nodes, world.settings.node_fence_after_s, now)


def is_ready(node: Node) -> bool:
    """Whether the node says that it is; one that has never said so is not."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def gpu_fault(replica: Replica, world: World) -> str:
    """What the node says about a broken accelerator, if the pod has one; empty otherwise."""
    state = world.node_of(replica)
    if state is None or state.node is None or not uses_gpu(replica, world.settings):
        return ""
    conditions = (c.type for c in state.node.status.conditions if c.status == "True")
    taints = (taint.key for taint in state.node.spec.taints)
    return _first(conditions, world.settings.gpu_fault_conditions) or _first(
        taints, world.settings.gpu_fault_taints
    )


def uses_gpu(replica: Replica, settings: Settings) -> bool:
    containers = (*replica.pod.spec.containers, *replica.pod.spec.init_containers)
    return any(
        str(amount) not in {"0", ""}
        for container in containers
        for asked in (container.resources.limits, container.resources.requests)
        for name, amount in asked.items()
        if name in settings.gpu_resources
    )


def _lost_at(state: NodeState, settings: Settings) -> float | None:
    if state.unready_since is None:
        return None
    return state.unready_since + settings.node_lost_after_s


def _first(found: Iterable[str], known: tuple[str, ...]) -> str:
    return next((name for name in found if name in known), "")
