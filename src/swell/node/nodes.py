"""Decides about the Node objects of an agent: registration, conditions and taints. Pure.

A registered node that is deleted stays deleted, as with a kubelet: it is registered again when the
agent is started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from swell.api.codec import to_body
from swell.api.core import NodeSpec, Taint
from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.resource import Resource
from swell.api.times import format_time, parse_time
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.plan import NOTHING, CreateObject, PatchObject, Plan, patch_object

# On a hollow node: simulate its loss. No heartbeat, no report, no pod is started or ended.
SIMULATE_LOSS = "elasticdeeplearning.ai/hollow-lost"
HOSTNAME_LABEL = "kubernetes.io/hostname"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
READY = "Ready"
# A cluster whose node lifecycle controller removes the taint of a ready node has done so by then.
TAINT_PATIENCE_S = 2.0

_HEALTHY = {
    READY: ("True", "KubeletReady", "the node agent is ready"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "the node has enough memory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "the node has enough disk space"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "the node has enough process ids"),
}


class NodeInfo(ApiStruct, frozen=True):
    """The part of a node's nodeInfo that its agent reads."""

    boot_id: str = msgspec.field(default="", name="bootID")


class OwnStatus(ApiStruct, frozen=True):
    """The part of a node's status that its agent reads."""

    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class OwnNode(ApiStruct, frozen=True):
    """The part of a Node that its own agent reads."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: OwnStatus = OwnStatus()


OWN_NODES = Resource("", "v1", "Node", "nodes", OwnNode, namespaced=False)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The properties that all nodes of an agent share. Every start of it has another `boot_id`."""

    capacity: Mapping[str, str]
    boot_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    address: str = "127.0.0.1"
    log_port: int = 0
    architecture: str = "amd64"
    system: str = "linux"
    version: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationSnapshot:
    """One of our nodes. `was_registered` is set once this agent has seen its own registration."""

    name: str
    node: OwnNode | None
    shape: NodeShape
    was_registered: bool


def decide_node(view: RegistrationSnapshot, now: float) -> Plan:
    """Returns the plan that registers a node, keeps it ready, and removes a new node's taint."""
    if view.node is None:
        if view.was_registered:
            return NOTHING
        return Plan((CreateObject(OWN_NODES, node_body(view.name, view.shape, now)),))
    if simulates_loss(view.node):
        return NOTHING
    if not is_registered(view.node, view.shape):
        return Plan(_renewal(view.node, view.shape, now), reasons=("registered before",))
    if not is_healthy(view.node):
        return Plan((_status_patch(view.node, {"conditions": _conditions(view.node, now)}),))
    return _untaint(view.node, now)


def is_registered(node: OwnNode, shape: NodeShape) -> bool:
    """Whether this start of the agent has registered the node."""
    return node.status.node_info.boot_id == shape.boot_id


def simulates_loss(node: OwnNode) -> bool:
    return node.metadata.annotations.get(SIMULATE_LOSS) == "true"


def is_healthy(node: OwnNode) -> bool:
    held = {condition.type: condition.status for condition in node.status.conditions}
    return all(held.get(type_) == wanted for type_, (wanted, _, _) in _HEALTHY.items())


def node_body(name: str, shape: NodeShape, now: float) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _labels(name, shape),
            "annotations": dict(shape.annotations),
        },
        "spec": {"taints": [to_body(taint) for taint in shape.taints]},
        "status": _status(name, shape) | {"conditions": _conditions(None, now)},
    }


def _labels(name: str, shape: NodeShape) -> dict[str, str]:
    return {
        HOSTNAME_LABEL: name,
        "kubernetes.io/os": shape.system,
        "kubernetes.io/arch": shape.architecture,
        **shape.labels,
    }


def _status(name: str, shape: NodeShape) -> Body:
    status: Body = {
        "capacity": dict(shape.capacity),
        "allocatable": dict(shape.capacity),
        "addresses": [
            {"type": "InternalIP", "address": shape.address},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": _node_info(shape),
    }
    if shape.log_port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": shape.log_port}}
    return status


def _node_info(shape: NodeShape) -> Body:
    unknown = dict.fromkeys(
        ("machineID", "systemUUID", "kernelVersion", "osImage", "kubeProxyVersion"), ""
    )
    return unknown | {
        "bootID": shape.boot_id,
        "containerRuntimeVersion": f"swell://{shape.version}",
        "kubeletVersion": f"swell-{shape.version}",
        "operatingSystem": shape.system,
        "architecture": shape.architecture,
    }


def _conditions(node: OwnNode | None, now: float) -> list[Body]:
    held: dict[str, Condition] = {}
    if node is not None:
        held = {condition.type: condition for condition in node.status.conditions}
    return [_condition(type_, held.get(type_), now) for type_ in _HEALTHY]


def _condition(type_: str, held: Condition | None, now: float) -> Body:
    status, reason, message = _HEALTHY[type_]
    changed = held is None or held.status != status
    since = None if held is None or changed else held.last_transition_time
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": format_time(now),
        "lastTransitionTime": since or format_time(now),
    }


def _renewal(node: OwnNode, shape: NodeShape, now: float) -> tuple[PatchObject, ...]:
    """Returns the patches that renew the registration by an earlier start.

    The status comes last, because its boot id confirms the whole.
    """
    metadata = node.metadata
    kept = [t for t in node.spec.taints if all((t.key, t.effect) != _id(o) for o in shape.taints)]
    body: Body = {
        "metadata": {
            "labels": _labels(metadata.name, shape),
            "annotations": dict(shape.annotations),
        },
        "spec": {"taints": [to_body(taint) for taint in (*kept, *shape.taints)] or None},
    }
    version = metadata.resource_version
    status = _status(metadata.name, shape) | {"conditions": _conditions(node, now)}
    return (
        patch_object(OWN_NODES, metadata.key, metadata.uid, body, version=version),
        _status_patch(node, status),
    )


def _id(taint: Taint) -> tuple[str, str]:
    return taint.key, taint.effect


def _status_patch(node: OwnNode, status: Body) -> PatchObject:
    """Returns a strategic patch: conditions of other writers stay as they are."""
    body = {"metadata": {"uid": node.metadata.uid}, "status": status}
    return PatchObject(OWN_NODES.status, node.metadata.key, Patch(PatchKind.STRATEGIC, body))


def _untaint(node: OwnNode, now: float) -> Plan:
    """Returns the plan that removes the not-ready taint of a ready node.

    Not every cluster has a controller that does it, so the agent does it after a while.
    """
    wrong = {NOT_READY, UNREACHABLE}
    kept = [t for t in node.spec.taints if t.key not in wrong or t.effect != "NoSchedule"]
    if len(kept) == len(node.spec.taints):
        return NOTHING
    ready = next(c for c in node.status.conditions if c.type == READY)
    since = parse_time(ready.last_transition_time) if ready.last_transition_time else 0.0
    if now < since + TAINT_PATIENCE_S:
        return Plan(wake_at=since + TAINT_PATIENCE_S)
    metadata = node.metadata
    body: Body = {"spec": {"taints": [to_body(taint) for taint in kept] or None}}
    version = metadata.resource_version
    patch = patch_object(OWN_NODES, metadata.key, metadata.uid, body, version=version)
    return Plan((patch,), reasons=("taint",))
