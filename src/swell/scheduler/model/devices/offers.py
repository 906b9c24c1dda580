"""Reads what a ResourceSlice offers, strictly: a device with a field not known is not offered.

Pure functions of objects, and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from swell.api import codec
from swell.api.devices import Device, ResourceSlice, ResourceSliceSpec
from swell.api.meta import Body
from swell.scheduler.model.devices.selectors import DeviceContent

PoolId = tuple[str, str]  # driver and name
DeviceId = tuple[str, str, str]  # driver, pool and name

_NO_SPEC = Device()


@dataclass(frozen=True, slots=True, eq=False)
class OfferedDevice:
    """A device of a slice. With `unsupported` it is never given to a claim.

    Without a `content` it could not be read: no selector can be asked about it.
    """

    id: DeviceId
    spec: Device
    content: DeviceContent | None
    unsupported: str = ""

    @property
    def pool(self) -> PoolId:
        return self.id[:2]


@dataclass(frozen=True, slots=True, eq=False)
class OfferedSlice:
    """A slice as it was read. With a `problem` nothing of its pool is given to claims."""

    name: str
    spec: ResourceSliceSpec
    devices: tuple[OfferedDevice, ...]
    problem: str = ""

    @property
    def pool(self) -> PoolId:
        return self.spec.driver, self.spec.pool.name

    @property
    def is_local(self) -> bool:
        """Whether one node alone can reach its devices."""
        return bool(self.spec.node_name) and not self.spec.shared_counters


def read_slice(found: ResourceSlice) -> OfferedSlice:
    problem = ""
    try:
        spec = codec.convert(found.spec, ResourceSliceSpec)
    except msgspec.ValidationError as error:
        # Which pool it belongs to must be known all the same: that pool cannot be trusted.
        problem = f"slice {found.metadata.name} cannot be read: {error}"
        spec = _known_part(found.spec)
    devices = tuple(_read_device(body, spec) for body in spec.devices)
    return OfferedSlice(found.metadata.name, spec, devices, problem)


def _known_part(body: Body) -> ResourceSliceSpec:
    """Returns what can be read of a slice of which something is not known."""
    known: Body = {name: body[name] for name in ("driver", "nodeName", "allNodes") if name in body}
    pool = body.get("pool")
    if isinstance(pool, dict):
        names = ("name", "generation", "resourceSliceCount")
        known["pool"] = {name: pool[name] for name in names if name in pool}
    try:
        return codec.convert(known, ResourceSliceSpec)
    except msgspec.ValidationError:
        return ResourceSliceSpec()


def _read_device(body: Body, spec: ResourceSliceSpec) -> OfferedDevice:
    driver, pool = spec.driver, spec.pool.name
    try:
        device = codec.convert(body, Device)
    except msgspec.ValidationError as error:
        name = body.get("name")
        identity = (driver, pool, name if isinstance(name, str) else "")
        return OfferedDevice(identity, _NO_SPEC, None, f"it cannot be read: {error}")
    why = next(_unsupported(device), "")
    content = DeviceContent.of(driver, device)
    return OfferedDevice((driver, pool, device.name), device, content, why)


def _unsupported(device: Device) -> Iterator[str]:
    """Yields the fields because of which a device is not offered."""
    if device.binding_conditions or device.binding_failure_conditions:
        yield "bindingConditions"
    if device.allow_multiple_allocations:
        yield "allowMultipleAllocations"
    if device.node_allocatable_resource_mappings:
        yield "nodeAllocatableResourceMappings"
    for name, one in device.attributes.items():
        if any(x is not None for x in (one.numbers, one.flags, one.texts, one.versions)):
            yield f"attribute {name}, which is a list"
        elif all(x is None for x in (one.number, one.flag, one.text, one.version)):
            yield f"attribute {name}, whose type is not known"
