"""Decides about nodes whose Lease is no longer renewed: conditions and taints.

A node is alive while its Lease is renewed. A node that never had a Lease is left alone.
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

# For many releases kube-controller-manager's default of --node-monitor-grace-period.
GRACE_S_DEFAULT = 40.0
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
READY = "Ready"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
# By the status of the condition Ready. The effect is NoSchedule: nothing here evicts by taints.
TAINTS = {"True": (), "False": (NOT_READY,), "Unknown": (NOT_READY, UNREACHABLE)}


@dataclass(frozen=True, slots=True)
class NodeLeaseSnapshot:
    """A node and how long its Lease has not been renewed; None without a Lease."""

    node: Node
    silent_s: float | None
    grace_s: float


def decide_node(snapshot: NodeLeaseSnapshot, now: float) -> Plan:
    """Set the conditions of a silent node to Unknown, and taint nodes by whether they are ready."""
    if snapshot.silent_s is None:
        return NOTHING
    is_lost = snapshot.silent_s >= snapshot.grace_s
    if is_lost:
        unknown = _unknown_conditions(snapshot.node, now)
        if unknown:
            # The taints follow in the next pass, which sees the new conditions.
            return Plan((_status_patch(snapshot.node, unknown),), reasons=("silent",))
    wake_at = None if is_lost else now + snapshot.grace_s - snapshot.silent_s
    taints = _taints(snapshot.node)
    if taints == snapshot.node.spec.taints:
        return Plan(wake_at=wake_at)
    metadata = snapshot.node.metadata
    body: Body = {"spec": {"taints": [to_body(taint) for taint in taints] or None}}
    version = metadata.resource_version
    patch = patch_object(NODES, metadata.key, metadata.uid, body, version=version)
    return Plan((patch,), wake_at=wake_at, reasons=("taints",))


def _unknown_conditions(node: Node, now: float) -> list[Body]:
    """The conditions that only the node can know, as Unknown, where they are not already."""
    held = {condition.type: condition for condition in node.status.conditions}
    unknown: list[Body] = []
    for type_ in (READY, *PRESSURES):
        condition = held.get(type_)
        if condition is not None and condition.status == "Unknown":
            continue
        if condition is None and type_ != READY:
            continue
        unknown.append(_unknown_condition(type_, condition, now))
    return unknown


def _unknown_condition(type_: str, before: Condition | None, now: float) -> Body:
    never = before is None
    return {
        "type": type_,
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
        "message": "the node's Lease was not renewed in time",
        "lastTransitionTime": format_time(now),
    }


def _status_patch(node: Node, conditions: list[Body]) -> PatchObject:
    """A strategic patch, which merges conditions by type: other conditions stay."""
    metadata = node.metadata
    body = {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "status": {"conditions": conditions},
    }
    return PatchObject(NODES.status, metadata.key, Patch(PatchKind.STRATEGIC, body))


def _taints(node: Node) -> tuple[Taint, ...]:
    """The taints a node should have; without a condition Ready it keeps those it has."""
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
