"""Nodes, as far as scheduler, autoscaler and operator read them."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Condition, ObjectMeta
from swell.api.quantity import QuantityText


class Taint(ApiStruct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(ApiStruct, frozen=True):
    allocatable: dict[str, QuantityText] = {}
    capacity: dict[str, QuantityText] = {}
    conditions: tuple[Condition, ...] = ()


class Node(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    api_version: str = "v1"
    kind: str = "Node"
