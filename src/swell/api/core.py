"""The small kinds of the core API group, and Leases, as far as Swell reads them."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import msgspec

from swell.api.meta import ApiStruct, Condition, ObjectMeta, Uid
from swell.api.quantity import QuantityText

# On nodes whose pods are processes with addresses of their own: host ports do not collide there.
PRIVATE_PORTS = "elasticdeeplearning.ai/private-ports"


class Taint(ApiStruct, frozen=True):
    """A mark on a node that keeps pods away which do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct, frozen=True):
    """The part of a node's spec that decides whether pods may go there."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeImage(ApiStruct, frozen=True):
    """An image that a node has, by all its names; None if it has lost them."""

    names: tuple[str, ...] | None = ()
    size_bytes: int = 0


@lru_cache(maxsize=8192)
def _shared(image: NodeImage) -> NodeImage:
    """Returns the first of equal images that was read, so that there is one object of each."""
    return image


class NodeStatus(ApiStruct, frozen=True):
    """The part of a node's status that says how much room it has, and whether it is healthy."""

    allocatable: dict[str, QuantityText] = {}
    capacity: dict[str, QuantityText] = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[NodeImage, ...] = ()

    def __post_init__(self) -> None:
        # A node lists up to 50 images, mostly those of its neighbours: with 5,000 nodes that would
        # be more than all the rest that is kept of them.
        if self.images:
            msgspec.structs.force_setattr(self, "images", tuple(map(_shared, self.images)))


class Node(ApiStruct, frozen=True):
    """A node, as scheduler, autoscaler and operator read it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    api_version: str = "v1"
    kind: str = "Node"


class NamespaceSpec(ApiStruct, frozen=True):
    """Holds the finalizers of a namespace, which keep it until its contents are deleted."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(ApiStruct, frozen=True):
    """Whether a namespace is Active or Terminating."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(ApiStruct, frozen=True):
    """A namespace, as far as its deletion concerns the objects in it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
    api_version: str = "v1"
    kind: str = "Namespace"


class ServicePort(ApiStruct, frozen=True):
    """One port of a service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(ApiStruct, frozen=True):
    """Selects the pods behind a service. Our services are headless: `cluster_ip` is None."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    type: str = ""


class Service(ApiStruct, frozen=True):
    """A service, by which the pods of a job find each other by name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    api_version: str = "v1"
    kind: str = "Service"


class ConfigMap(ApiStruct, frozen=True):
    """A config map: the list of a job's members, or a volume of a pod."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False
    api_version: str = "v1"
    kind: str = "ConfigMap"


class ResourceQuotaSpec(ApiStruct, frozen=True):
    """The most that a namespace may use."""

    hard: dict[str, QuantityText] = {}


class ResourceQuotaStatus(ApiStruct, frozen=True):
    """The quota in force and the amounts in use, as the API server counts them."""

    hard: dict[str, QuantityText] = {}
    used: dict[str, QuantityText] = {}


class ResourceQuota(ApiStruct, frozen=True):
    """The quota of a namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    api_version: str = "v1"
    kind: str = "ResourceQuota"


class EventSeverity(Enum):
    """The `type` of an event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class ObjectReference(ApiStruct, frozen=True):
    """Names the object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    field_path: str = ""


class EventSource(ApiStruct, frozen=True):
    """The component that reported an event."""

    component: str = ""
    host: str = ""


class Event(ApiStruct, frozen=True):
    """An event of the core group: what happened to an object, for people to read."""

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
    """The holder of a lease, and when it renewed it last."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(ApiStruct, frozen=True):
    """A lease: of a leader among replicas, or of a node that is alive."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
