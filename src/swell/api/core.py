"""ConfigMaps: the members of a job as its pods read them, and the node agent's volumes."""

from __future__ import annotations

from enum import Enum

import msgspec

from swell.api.meta import ApiStruct, Condition, ObjectMeta, Uid
from swell.api.quantity import QuantityText


class ConfigMap(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False
    api_version: str = "v1"
    kind: str = "ConfigMap"


class NamespaceSpec(ApiStruct, frozen=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(ApiStruct, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
    api_version: str = "v1"
    kind: str = "Namespace"


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


class ServicePort(ApiStruct, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(ApiStruct, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    type: str = ""


class Service(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    api_version: str = "v1"
    kind: str = "Service"


class ResourceQuotaSpec(ApiStruct, frozen=True):
    hard: dict[str, QuantityText] = {}


class ResourceQuotaStatus(ApiStruct, frozen=True):
    hard: dict[str, QuantityText] = {}
    used: dict[str, QuantityText] = {}


class ResourceQuota(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    api_version: str = "v1"
    kind: str = "ResourceQuota"


class EventSeverity(Enum):
    """An event's `type`."""

    NORMAL = "Normal"
    WARNING = "Warning"


class ObjectReference(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    field_path: str = ""


class EventSource(ApiStruct, frozen=True):
    component: str = ""
    host: str = ""


class Event(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
    api_version: str = "v1"
    kind: str = "Event"


class LeaseSpec(ApiStruct, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
