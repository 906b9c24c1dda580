"""Reads what a claim asks for, strictly: a field that is not known or supported refuses it.

Pure functions of objects, and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from swell.api import codec
from swell.api.devices import (
    ALL,
    EXACT_COUNT,
    RESULTS_MAX,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from swell.api.meta import Body
from swell.api.wording import count_of
from swell.scheduler.model.devices.selectors import Selectors
from swell.scheduler.model.reasons import WaitReason


@dataclass(frozen=True, slots=True)
class ClaimProblem:
    """Why a claim can have no devices on any node."""

    reason: WaitReason
    text: str


@dataclass(frozen=True, slots=True)
class ReadClass:
    """A class as it was read. With a `problem` no request may use it."""

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource: str = ""
    problem: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class WantedDevices:
    """One way to meet a request: the request itself, or one of its sub-requests."""

    name: str  # with a slash for a sub-request
    parent: str
    of_class: ReadClass
    selectors: tuple[tuple[str, str], ...]  # origin and expression, those of the class first
    is_all: bool
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WantedClaim:
    """The requests of a claim, each with the ways to meet it in order of preference."""

    spec: ResourceClaimSpec
    requests: tuple[tuple[WantedDevices, ...], ...]
    has_preferences: tuple[bool, ...]  # whether a request lists several ways

    @property
    def constraints(self) -> tuple[DeviceConstraint, ...]:
        return self.spec.devices.constraints


def read_class(found: DeviceClass) -> ReadClass:
    name = found.metadata.name
    try:
        spec = codec.convert(found.spec, DeviceClassSpec)
    except msgspec.ValidationError as error:
        return ReadClass(name, problem=f"device class {name} cannot be read: {error}")
    if any(one.cel is None for one in spec.selectors):
        return ReadClass(name, problem=f"device class {name} has a selector that is not CEL")
    expressions = tuple(one.cel.expression for one in spec.selectors if one.cel is not None)
    resource = spec.extended_resource_name or ""
    created = found.metadata.creation_timestamp or ""
    return ReadClass(name, expressions, spec.config, resource, created=created)


def read_claim(
    body: Body, classes: Mapping[str, ReadClass], selectors: Selectors
) -> WantedClaim | ClaimProblem:
    """Returns what a claim with this spec asks for, or the first reason why it cannot be met."""
    unsupported = WaitReason.DEVICE_UNSUPPORTED
    try:
        spec = codec.convert(body, ResourceClaimSpec)
    except msgspec.ValidationError as error:
        return ClaimProblem(unsupported, f"its spec cannot be read: {error}")
    for at, one in enumerate(spec.devices.constraints):
        if (one.match_attribute is None) == (one.distinct_attribute is None):
            text = f"constraint {at} is neither matchAttribute nor distinctAttribute"
            return ClaimProblem(unsupported, text)
    ways: list[tuple[WantedDevices, ...]] = []
    for request in spec.devices.requests:
        alternatives = [_read_way(request, way, classes, selectors) for way in _ways_of(request)]
        problem = next((one for one in alternatives if isinstance(one, ClaimProblem)), None)
        if problem is not None:
            return problem
        if not alternatives:
            text = f"request {request.name!r} is of a kind that is not known"
            return ClaimProblem(unsupported, text)
        ways.append(tuple(one for one in alternatives if isinstance(one, WantedDevices)))
    n_least = sum(min(0 if way.is_all else way.count for way in one) for one in ways)
    if n_least > RESULTS_MAX:
        text = f"it asks for {n_least} devices; a claim can have {RESULTS_MAX}"
        return ClaimProblem(unsupported, text)
    preferences = tuple(bool(one.first_available) for one in spec.devices.requests)
    return WantedClaim(spec, tuple(ways), preferences)


def _ways_of(request: DeviceRequest) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    if request.exactly is not None:
        yield request.exactly
    yield from request.first_available


def _read_way(
    request: DeviceRequest,
    way: ExactDeviceRequest | DeviceSubRequest,
    classes: Mapping[str, ReadClass],
    selectors: Selectors,
) -> WantedDevices | ClaimProblem:
    unsupported = WaitReason.DEVICE_UNSUPPORTED
    name = request.name
    if isinstance(way, DeviceSubRequest):
        name = f"{request.name}/{way.name}"
    if why := next(_not_supported(request, way), ""):
        return ClaimProblem(unsupported, f"request {name!r} {why}")
    of_class = classes.get(way.device_class_name)
    if of_class is None:
        text = f"device class {way.device_class_name!r} of request {name!r} does not exist"
        return ClaimProblem(WaitReason.DEVICE_CLASS_MISSING, text)
    if of_class.problem:
        return ClaimProblem(unsupported, of_class.problem)
    expressions = tuple(_selectors_of(of_class, name, way.selectors))
    for origin, expression in expressions:
        if problem := selectors.problem(expression):
            text = f"the selector {expression!r} of {origin} is no expression: {problem}"
            return ClaimProblem(WaitReason.DEVICE_SELECTOR_ERROR, text)
    return WantedDevices(
        name=name,
        parent=request.name,
        of_class=of_class,
        selectors=expressions,
        is_all=way.allocation_mode == ALL,
        count=way.count,
        admin_access=isinstance(way, ExactDeviceRequest) and bool(way.admin_access),
        tolerations=way.tolerations,
    )


def _not_supported(
    request: DeviceRequest, way: ExactDeviceRequest | DeviceSubRequest
) -> Iterator[str]:
    """Yields the fields because of which a way to meet a request is refused."""
    if request.exactly is not None and request.first_available:
        yield "has both exactly and firstAvailable"
    if way.capacity is not None:
        yield "asks for capacity"
    if way.allocation_mode not in {EXACT_COUNT, ALL}:
        yield f"has allocationMode {way.allocation_mode!r}"
    if way.allocation_mode == EXACT_COUNT and way.count < 1:
        yield f"is for {count_of(way.count, 'device')}"
    if any(one.cel is None for one in way.selectors):
        yield "has a selector that is not CEL"


def _selectors_of(
    of_class: ReadClass, name: str, selectors: tuple[DeviceSelector, ...]
) -> Iterator[tuple[str, str]]:
    for expression in of_class.selectors:
        yield f"device class {of_class.name}", expression
    for one in selectors:
        if one.cel is not None:
            yield f"request {name!r}", one.cel.expression
