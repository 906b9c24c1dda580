"""Endpoints and EndpointSlices: the addresses behind a service."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.warnings import slice_warnings
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

ENDPOINTS_MAX = 1000
ADDRESSES_MAX = 100
PORTS_MAX = 20_000


def endpoints_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    for index, subset in enumerate(new.get("subsets", ())):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield field_errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for name in ("addresses", "notReadyAddresses"):
            for at, address in enumerate(subset.get(name, ())):
                yield from _endpoint_address_errors(address, f"{path}.{name}[{at}]")
        ports = subset.get("ports", [])
        for at, port in enumerate(ports):
            where = f"{path}.ports[{at}]"
            if port.get("name"):
                yield from fields.name_errors(port["name"], f"{where}.name", "label")
            elif len(ports) > 1:
                yield field_errors.required(f"{where}.name")
            yield from fields.port_number_errors(port.get("port", 0), f"{where}.port")
            if port.get("appProtocol"):
                field = f"{where}.appProtocol"
                yield from fields.qualified_name_errors(port["appProtocol"], field)


def _endpoint_address_errors(address: Body, path: str) -> Iterator[FieldError]:
    problems = list(fields.ip_errors(address.get("ip", ""), f"{path}.ip"))
    yield from problems or fields.special_address_errors(address["ip"], f"{path}.ip")
    if address.get("hostname"):
        yield from fields.name_errors(address["hostname"], f"{path}.hostname", "label")
    if address.get("nodeName"):
        yield from fields.name_errors(address["nodeName"], f"{path}.nodeName")


def slice_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    family = new.get("addressType", "")
    endpoints, ports = new.get("endpoints") or [], new.get("ports") or []
    if old is not None:
        yield from fields.immutable(family, old.get("addressType"), "addressType")
    if len(ports) > PORTS_MAX:
        yield field_errors.too_many("ports", len(ports), PORTS_MAX)
    names: set[str] = set()
    for index, port in enumerate(ports):
        name, where = port.get("name", ""), f"ports[{index}].name"
        if port.get("appProtocol"):
            field = f"ports[{index}].appProtocol"
            yield from fields.qualified_name_errors(port["appProtocol"], field)
        if name:
            yield from fields.name_errors(name, where, "label")
        if name in names:
            yield field_errors.duplicate(where, name)
        names.add(name)
    if len(endpoints) > ENDPOINTS_MAX:
        yield field_errors.too_many("endpoints", len(endpoints), ENDPOINTS_MAX)
        return
    if old is not None and old.get("endpoints") == new.get("endpoints"):
        return  # they were valid when they were stored
    for index, endpoint in enumerate(endpoints):
        yield from _endpoint_errors(endpoint, family, f"endpoints[{index}]")


def _endpoint_errors(endpoint: Body, family: str, path: str) -> Iterator[FieldError]:
    addresses = endpoint.get("addresses", [])
    if not addresses:
        yield field_errors.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > ADDRESSES_MAX:
        yield field_errors.too_many(f"{path}.addresses", len(addresses), ADDRESSES_MAX)
    for index, address in enumerate(addresses):
        where = f"{path}.addresses[{index}]"
        if family == "FQDN":
            yield from fields.name_errors(address, where)
        elif family in {"IPv4", "IPv6"}:
            yield from _family_errors(address, family, where, f"{path}.addresses")
    if endpoint.get("hostname"):
        yield from fields.name_errors(endpoint["hostname"], f"{path}.hostname", "label")
    if endpoint.get("nodeName"):
        yield from fields.name_errors(endpoint["nodeName"], f"{path}.nodeName")


def _family_errors(address: str, family: str, field: str, list_field: str) -> Iterator[FieldError]:
    problems = list(fields.ip_errors(address, field))
    if problems:
        yield from problems
        return
    if (":" in address) != (family == "IPv6"):
        yield field_errors.invalid(list_field, address, f"must be an {family} address")
    yield from fields.special_address_errors(address, field)


def default_slice(endpoint_slice: Body) -> None:
    for name in ("endpoints", "ports"):
        # kube-apiserver shows null for an empty list here.
        endpoint_slice[name] = endpoint_slice.get(name) or None
    for endpoint in endpoint_slice["endpoints"] or ():
        endpoint.pop("deprecatedTopology", None)  # readable in older versions only
    for port in endpoint_slice["ports"] or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def slice_changed(new: Body, old: Body) -> bool:
    """Whether a write raises the generation. Labels count: consumers select slices by them."""
    same = all(new.get(name) == old.get(name) for name in ("addressType", "endpoints", "ports"))
    return not same or new["metadata"].get("labels") != old["metadata"].get("labels")


ENDPOINTS = Behaviour(errors=endpoints_errors)
SLICES = Behaviour(
    default=default_slice, errors=slice_errors, warnings=slice_warnings, grows=slice_changed
)
