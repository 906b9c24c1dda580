"""What the state of a node means for the pods on it: lost, fenced, a broken accelerator."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.node import Node
from swell.api.times import parse_time
from swell.operator.lifecycle.world import Replica, World
from swell.operator.settings import Settings

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
DEFAULT_GRACE_S = 30


def lost_since(replica: Replica, world: World, now: float) -> float | None:
    """The wall time since which the pod's node is lost; None while it is not, or not known."""
    if world.nodes is None or not replica.is_bound:
        return None
    node = world.node_of(replica)
    if node is None:
        return now
    since = not_ready_since(node)
    if since is None or now - since < world.settings.node_lost_after_s:
        return None
    return since + world.settings.node_lost_after_s


def will_be_lost_at(replica: Replica, world: World) -> float | None:
    """When the pod's node will count as lost, unless it recovers: the time to look again."""
    node = world.node_of(replica)
    since = not_ready_since(node) if node else None
    return None if since is None else since + world.settings.node_lost_after_s


def is_fenced(replica: Replica, world: World, now: float) -> bool:
    """Whether the pod's processes certainly no longer run, so that its record may be dropped."""
    at = fenced_at(replica, world, now)
    return at is not None and at <= now


def fenced_at(replica: Replica, world: World, now: float) -> float | None:
    """When the pod's node counts as fenced; None while nothing points that way."""
    if world.nodes is None or not replica.is_bound:
        return None
    node = world.node_of(replica)
    if node is None or any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
        return now
    since = not_ready_since(node)
    if since is None:
        return None
    grace_s = replica.pod.spec.termination_grace_period_seconds
    return (
        since
        + (DEFAULT_GRACE_S if grace_s is None else grace_s)
        + world.settings.node_fence_after_s
    )


def not_ready_since(node: Node) -> float | None:
    """Since when Ready is not True; a node that never said so is not ready since it exists."""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            if condition.status == "True":
                return None
            return parse_time(condition.last_transition_time or _created(node))
    return parse_time(_created(node))


def gpu_fault(replica: Replica, world: World) -> str:
    """What the node says about a broken accelerator, if the pod has one; empty otherwise."""
    node = world.node_of(replica)
    if node is None or not uses_gpu(replica, world.settings):
        return ""
    conditions = (c.type for c in node.status.conditions if c.status == "True")
    taints = (taint.key for taint in node.spec.taints)
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


def _first(found: Iterable[str], known: tuple[str, ...]) -> str:
    return next((name for name in found if name in known), "")


def _created(node: Node) -> str:
    return node.metadata.creation_timestamp or "1970-01-01T00:00:00Z"
