"""What is said of a node that has fallen silent, and unsaid when it is back. Pure.

A node is alive while its Lease is renewed. One that never had a Lease is not ours to judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.codec import to_body
from swell.api.core import Node, Taint
from swell.api.kinds import NODES
from swell.api.meta import Body, Condition
from swell.api.times import format_time
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.plan import NOTHING, PatchObject, Plan, patch_object

GRACE_S_DEFAULT = 40.0
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
READY = "Ready"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
# By what the node says of itself. Nobody evicts here, so nothing stronger than NoSchedule.
TAINTS = {"True": (), "False": (NOT_READY,), "Unknown": (NOT_READY, UNREACHABLE)}


@dataclass(frozen=True, slots=True)
class NodeLeaseSnapshot:
    """A node and how long its Lease has not been renewed; None without a Lease."""

    node: Node
    silent_s: float | None
    grace_s: float


def decide_node(view: NodeLeaseSnapshot, now: float) -> Plan:
    """Say that a silent node's state is unknown, and taint nodes by whether they are ready."""
    if view.silent_s is None:
        return NOTHING
    is_lost = view.silent_s >= view.grace_s
    if is_lost:
        unsure = _unsure_conditions(view.node, now)
        if unsure:
            # The taints follow in the next pass, from the node as it then is.
            return Plan((_status_patch(view.node, unsure),), reasons=("silent",))
    wake_at = None if is_lost else now + view.grace_s - view.silent_s
    taints = _taints(view.node)
    if taints == view.node.spec.taints:
        return Plan(wake_at=wake_at)
    metadata = view.node.metadata
    body: Body = {"spec": {"taints": [to_body(taint) for taint in taints] or None}}
    version = metadata.resource_version
    patch = patch_object(NODES, metadata.key, metadata.uid, body, version=version)
    return Plan((patch,), wake_at=wake_at, reasons=("taints",))


def _unsure_conditions(node: Node, now: float) -> list[Body]:
    """The conditions only the node could know, where they still claim to be known."""
    held = {condition.type: condition for condition in node.status.conditions}
    unsure: list[Body] = []
    for type_ in (READY, *PRESSURES):
        condition = held.get(type_)
        if condition is not None and condition.status == "Unknown":
            continue
        if condition is None and type_ != READY:
            continue
        unsure.append(_unknown(type_, condition, now))
    return unsure


def _unknown(type_: str, before: Condition | None, now: float) -> Body:
    never = before is None
    return {
        "type": type_,
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
        "message": "the node's Lease was not renewed in time",
        "lastTransitionTime": format_time(now),
    }


def _status_patch(node: Node, conditions: list[Body]) -> PatchObject:
    """Strategic, by condition type: what else the node reported stays as it is."""
    metadata = node.metadata
    body = {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "status": {"conditions": conditions},
    }
    return PatchObject(NODES.status, metadata.key, Patch(PatchKind.STRATEGIC, body))


def _taints(node: Node) -> tuple[Taint, ...]:
    """The taints a node should have; a node that has not yet said anything keeps what it has."""
    ready = next((c.status for c in node.status.conditions if c.type == READY), "")
    if ready not in TAINTS:
        return node.spec.taints
    wanted = TAINTS[ready]
    kept = tuple(
        taint
        for taint in node.spec.taints
        if taint.effect != "NoSchedule"
        or taint.key not in {NOT_READY, UNREACHABLE}
        or taint.key in wanted
    )
    held = {(taint.key, taint.effect) for taint in kept}
    added = (Taint(key=key, effect="NoSchedule") for key in wanted)
    return (*kept, *(taint for taint in added if (taint.key, taint.effect) not in held))
