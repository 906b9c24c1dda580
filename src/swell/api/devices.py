"""Devices, their classes and claims (resource.k8s.io/v1), as far as they decide where a pod starts.

A field that is ignored could give one device to two pods. So what decides about devices is kept as
plain JSON here, and read by the strict structs below, one device and one request at a time: a field
that they do not know is an error there, and what has it is not used. Results of allocations are the
opposite: whatever else they say, a device that is named there is in use.
"""

from __future__ import annotations

import msgspec

from swell.api.meta import ApiStruct, Body, ObjectMeta, Uid
from swell.api.pod import NodeSelector
from swell.api.quantity import QuantityText

API_GROUP = "resource.k8s.io"
# Keeps an allocated claim until its devices are free again. Whoever allocates adds it.
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
# How many pods may share a claim, and how many devices one claim can have.
RESERVED_MAX = 256
RESULTS_MAX = 32
# The ways to say how many devices a request is for.
EXACT_COUNT = "ExactCount"
ALL = "All"
# Where a configuration in an allocation comes from.
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


class _Strict(ApiStruct, frozen=True, forbid_unknown_fields=True):
    """A struct that is read only where every field of the object is known."""


# --- devices


class DeviceTaint(_Strict, frozen=True):
    """A mark on a device that keeps claims away which do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class DeviceAttribute(_Strict, frozen=True):
    """A value of one of four types. Lists are known in order to be refused."""

    number: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    text: str | None = msgspec.field(default=None, name="string")
    version: str | None = None
    numbers: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    flags: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    texts: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    versions: tuple[str, ...] | None = None


class DeviceCapacity(_Strict, frozen=True):
    """An amount that a device has. The policy matters to shared devices only."""

    value: QuantityText = "0"
    request_policy: Body | None = None


class DeviceCounter(_Strict, frozen=True):
    """An amount of a counter."""

    value: QuantityText = "0"


class CounterSet(_Strict, frozen=True):
    """Counters that the devices of a pool share, such as the slices of one GPU."""

    name: str = ""
    counters: dict[str, DeviceCounter] = {}


class CounterConsumption(_Strict, frozen=True):
    """Counters that a device takes from a set while it is in use."""

    counter_set: str = ""
    counters: dict[str, DeviceCounter] = {}


class Device(_Strict, frozen=True):
    """One device of a slice. What it needs that is not supported is known in order to be seen."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    taints: tuple[DeviceTaint, ...] = ()
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: Body | None = None


class ResourcePool(_Strict, frozen=True):
    """The pool of a slice. Only its highest generation counts, once all its slices are there."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(_Strict, frozen=True):
    """A part of a pool, and the nodes that reach its devices. Each device is read on its own."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Body, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiStruct, frozen=True):
    """Devices that a driver offers."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Body = {}  # read as ResourceSliceSpec
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceSlice"


# --- classes and claims


class DeviceToleration(_Strict, frozen=True):
    """A taint of devices that a request tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CelSelector(_Strict, frozen=True):
    """An expression that is true for the devices that are wanted."""

    expression: str = ""


class DeviceSelector(_Strict, frozen=True):
    """Selects devices. There is one way to do so."""

    cel: CelSelector | None = None


class ExactDeviceRequest(_Strict, frozen=True):
    """Devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Body | None = None


class DeviceSubRequest(_Strict, frozen=True):
    """One of several ways to meet a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Body | None = None


class DeviceRequest(_Strict, frozen=True):
    """A request for devices: one way to meet it, or several of which the first possible counts."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(_Strict, frozen=True):
    """An attribute that must be the same for all devices of some requests, or never the same."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(_Strict, frozen=True):
    """Settings for a driver, which pass through without being read."""

    requests: tuple[str, ...] = ()
    opaque: Body | None = None


class DeviceClaim(_Strict, frozen=True):
    """The devices that a claim is for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(_Strict, frozen=True):
    """The devices that a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceClassConfiguration(_Strict, frozen=True):
    """Settings for a driver that come with a class."""

    opaque: Body | None = None


class DeviceClassSpec(_Strict, frozen=True):
    """The devices of a class, and the settings that come with them."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True):
    """A class of devices, which an administrator has made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Body = {}  # read as DeviceClassSpec
    api_version: str = "resource.k8s.io/v1"
    kind: str = "DeviceClass"


# --- allocations


class DeviceResult(ApiStruct, frozen=True):
    """A device that a claim was given, and for which of its requests.

    The last four are written by other schedulers; here they say that a device is only partly taken.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Body, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Body | None = None


class AllocationConfiguration(ApiStruct, frozen=True):
    """Settings for a driver, and the requests that they are about."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: Body | None = None


class AllocatedDevices(ApiStruct, frozen=True):
    """The devices of a claim, and the settings for their drivers."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True):
    """Devices that a claim was given, and the nodes that reach them; None stands for all."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(ApiStruct, frozen=True):
    """A user of a claim: for pods the group is empty and the resource `pods`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: Uid = Uid("")


class ResourceClaimStatus(ApiStruct, frozen=True):
    """Whether a claim is allocated, and who may use it."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(ApiStruct, frozen=True):
    """A claim of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Body = {}  # read as ResourceClaimSpec
    status: ResourceClaimStatus = ResourceClaimStatus()
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaim"


class ResourceClaimTemplate(ApiStruct, frozen=True):
    """The claim that the controller manager makes for each pod that names the template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Body = {}
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaimTemplate"
