"""Services, with cluster IPs from a fixed range; Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.objectmeta import name_problems
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# The first /16 of kubeadm's default range, and kube-apiserver's default of node ports.
ADDRESSES = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
# Kubernetes' default and limit of a session affinity's timeout.
AFFINITY_S = 10800
AFFINITY_S_MAX = 86400
HEADLESS = "None"
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
EXTERNAL = ("NodePort", "LoadBalancer")
# The server fills these in; a write without them means no change.
KEPT_ON_UPDATE = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")


def default(service: Body) -> None:
    spec = service["spec"]
    _default_affinity(spec)
    for port in spec.get("ports", ()):
        if not port.get("targetPort"):
            port["targetPort"] = port["port"]
    if spec["type"] in EXTERNAL or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _default_affinity(spec: Body) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if "timeoutSeconds" not in config:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_S}}


def prepare(new: Body, old: Body | None, context: WriteContext) -> None:
    spec = new["spec"]
    if old is not None:
        _keep(spec, old["spec"])
    if spec["type"] == "ExternalName":
        if old is not None and old["spec"]["type"] != "ExternalName":
            for name in (*KEPT_ON_UPDATE, "internalTrafficPolicy"):
                spec.pop(name, None)
        return
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        if problems := name_problems(new["metadata"].get("name") or "", "segment"):
            # A real server notes the address under the service's name before it checks that name.
            error = field_errors.invalid(
                "spec.clusterIPs", [""], f"the service's name {problems[0]}"
            )
            raise refusals.invalid(new["kind"], "", new["metadata"].get("name") or "", [error])
        spec["clusterIP"] = _free_address(context)
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec.get("clusterIP") != HEADLESS or spec.get("selector"):
        spec.setdefault("ipFamilies", [_family(spec.get("clusterIP", ""))])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    else:  # a headless service without a selector may have endpoints of both families
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
    if spec["type"] in EXTERNAL:
        _allocate_node_ports(spec, context)


def _keep(spec: Body, old: Body) -> None:
    if old["type"] == "ExternalName" or spec["type"] == "ExternalName":
        return
    # A writer who changed only clusterIP means the list as well.
    moved = spec.get("clusterIP") not in {None, "", old.get("clusterIP")}
    if moved and spec.get("clusterIPs") == old.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for name in KEPT_ON_UPDATE:
        if name in old and not spec.get(name):
            spec[name] = old[name]
    if spec["type"] in EXTERNAL:
        held = {(one["port"], one.get("protocol")): one for one in old.get("ports", ())}
        for port in spec.get("ports", ()):
            before = held.get((port["port"], port.get("protocol")), {})
            if "nodePort" in before:  # a port keeps the number it was given
                port.setdefault("nodePort", before["nodePort"])


def _family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def _free_address(context: WriteContext) -> str:
    taken = {one.get("spec", {}).get("clusterIP") for one in context.each("services")}
    for address in ADDRESSES.hosts():
        if str(address) not in taken:
            return str(address)
    raise refusals.bad_request("all service addresses are taken")


def _is_taken(address: str, context: WriteContext) -> bool:
    if address == HEADLESS:
        return False
    return any(one.get("spec", {}).get("clusterIP") == address for one in context.each("services"))


def _allocate_node_ports(spec: Body, context: WriteContext) -> None:
    taken = _node_ports(context) | {port.get("nodePort") for port in spec.get("ports", ())}
    free = (port for port in NODE_PORTS if port not in taken)
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            chosen = next(free, None)
            if chosen is None:
                raise refusals.internal("failed to allocate a nodePort: range is full")
            port["nodePort"] = chosen


def errors(new: Body, old: Body | None, context: WriteContext) -> Iterator[FieldError]:
    spec = new["spec"]
    if old is None and _is_taken(spec.get("clusterIP", HEADLESS), context):
        detail = "failed to allocate IP: provided IP is already allocated"
        yield field_errors.invalid("spec.clusterIPs", spec["clusterIPs"], detail)
    headless = spec.get("clusterIP") == HEADLESS
    if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
        yield field_errors.required("spec.ports")
    if headless and spec["type"] in EXTERNAL:
        detail = f"may not be set to 'None' for {spec['type']} services"
        yield field_errors.invalid("spec.clusterIPs[0]", HEADLESS, detail)
    if spec["type"] == "ExternalName":
        yield from _external_name_errors(spec)
    else:
        yield from _address_errors(spec, (old or {}).get("spec", {}))
    yield from _port_errors(spec)
    yield from _node_port_errors(new, old, context)
    yield from fields.labels_errors(spec.get("selector", {}), "spec.selector")
    timeout = spec.get("sessionAffinityConfig", {}).get("clientIP", {}).get("timeoutSeconds")
    if timeout is not None and not 0 < timeout <= AFFINITY_S_MAX:
        where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield field_errors.invalid(where, timeout, f"must be between 1 and {AFFINITY_S_MAX}")
    for index, address in enumerate(spec.get("externalIPs", ())):
        yield from fields.ip_errors(address, f"spec.externalIPs[{index}]")
    policy, external = spec.get("externalTrafficPolicy"), spec.get("externalIPs")
    if policy and spec["type"] not in EXTERNAL and not external:
        detail = "may only be set for externally-accessible services"
        yield field_errors.invalid("spec.externalTrafficPolicy", policy, detail)
    distribution = spec.get("trafficDistribution", DISTRIBUTIONS[0])
    if distribution not in DISTRIBUTIONS:
        yield field_errors.not_supported("spec.trafficDistribution", distribution, DISTRIBUTIONS)
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        yield field_errors.forbidden("spec.allocateLoadBalancerNodePorts", detail)


def _external_name_errors(spec: Body) -> Iterator[FieldError]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield field_errors.forbidden(f"spec.{name}", "may not be set for ExternalName services")
    target = spec.get("externalName", "").removesuffix(".")
    if not target:
        yield field_errors.required("spec.externalName")
    else:
        yield from fields.name_errors(target, "spec.externalName")


def _address_errors(spec: Body, old: Body) -> Iterator[FieldError]:
    addresses = spec.get("clusterIPs", [])
    if addresses and not spec.get("clusterIP"):
        detail = "must be empty when `clusterIP` is not specified"
        yield field_errors.invalid("spec.clusterIPs", addresses, detail)
    elif addresses and addresses[0] != spec.get("clusterIP"):
        yield field_errors.invalid(
            "spec.clusterIPs", addresses, "first value must match `clusterIP`"
        )
    for index, address in enumerate(addresses):
        if address != HEADLESS:
            problems = list(fields.ip_errors(address, f"spec.clusterIPs[{index}]"))
            yield from problems or _range_errors(address, addresses)
        elif len(addresses) > 1:
            detail = "'None' must be the first and only value"
            yield field_errors.invalid("spec.clusterIPs", addresses, detail)
    for index, (address, family) in enumerate(zip(addresses, spec["ipFamilies"], strict=False)):
        if address != HEADLESS and family in {"IPv4", "IPv6"} and _family(address) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield field_errors.invalid(f"spec.clusterIPs[{index}]", address, detail)
    if len(addresses) > 2:
        yield field_errors.invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")
    before = old.get("clusterIPs", [])
    if old.get("type") != "ExternalName" and before and before[:1] != addresses[:1]:
        yield field_errors.invalid("spec.clusterIPs[0]", addresses, "may not change once set")


def _range_errors(address: str, addresses: list[str]) -> Iterator[FieldError]:
    if ipaddress.ip_address(address) not in ADDRESSES:
        detail = "failed to allocate IP: the provided network does not match the current range"
        yield field_errors.invalid("spec.clusterIPs", addresses, detail)


def _port_errors(spec: Body) -> Iterator[FieldError]:
    ports = spec.get("ports", [])
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            yield from fields.name_errors(name, f"{where}.name", "label")
            if name in names:
                yield field_errors.duplicate(f"{where}.name", name)
        elif len(ports) > 1:
            yield field_errors.required(f"{where}.name")
        names.add(name)
        yield from fields.port_number_errors(port["port"], f"{where}.port")
        yield from fields.port_errors(port.get("targetPort", 0), f"{where}.targetPort")
        if port.get("appProtocol"):
            yield from fields.qualified_name_errors(port["appProtocol"], f"{where}.appProtocol")
        if port.get("nodePort") and spec["type"] == "ClusterIP":
            detail = "may not be used when `type` is 'ClusterIP'"
            yield field_errors.forbidden(f"{where}.nodePort", detail)
        number = (port.get("protocol", "TCP"), port["port"])
        if number in numbers:
            yield field_errors.duplicate(where, list(number))
        numbers.add(number)


def _node_port_errors(new: Body, old: Body | None, context: WriteContext) -> Iterator[FieldError]:
    """Ports that cannot be had. A service keeps its own, and may use one for several protocols."""
    if new["spec"]["type"] not in EXTERNAL:
        return
    own = {port.get("nodePort") for port in (old or {}).get("spec", {}).get("ports", ())}
    wanted = [
        (index, port["nodePort"])
        for index, port in enumerate(new["spec"].get("ports", ()))
        if port.get("nodePort") and port["nodePort"] not in own
    ]
    taken = _node_ports(context) if wanted else set()
    for index, number in wanted:
        if number in taken:
            detail = "provided port is already allocated"
        elif number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            detail = f"provided port is not in the valid range. The range of valid ports is {valid}"
        else:
            continue
        yield field_errors.invalid(f"spec.ports[{index}].nodePort", number, detail)


def _node_ports(context: WriteContext) -> set[int]:
    """The node ports of all services."""
    return {
        port["nodePort"]
        for one in context.each("services")
        for port in one.get("spec", {}).get("ports", ())
        if "nodePort" in port
    }


SERVICES = Behaviour(default=default, prepare=prepare, errors=errors)


# --- endpoints -----------------------------------------------------------------------------------

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


def _endpoint_address_errors(address: Body, path: str) -> Iterator[FieldError]:
    problems = list(fields.ip_errors(address.get("ip", ""), f"{path}.ip"))
    yield from problems or special_address_errors(address["ip"], f"{path}.ip")
    if address.get("hostname"):
        yield from fields.name_errors(address["hostname"], f"{path}.hostname", "label")
    if address.get("nodeName"):
        yield from fields.name_errors(address["nodeName"], f"{path}.nodeName")


def special_address_errors(address: str, field: str) -> Iterator[FieldError]:
    value = ipaddress.ip_address(address)
    if value.is_unspecified or value.is_loopback or value.is_link_local or value.is_multicast:
        detail = "may not be unspecified, loopback, link-local or multicast"
        yield field_errors.invalid(field, address, detail)


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
    yield from special_address_errors(address, field)


def default_slice(endpoint_slice: Body) -> None:
    for name in ("endpoints", "ports"):
        # kube-apiserver shows null for an empty list here.
        endpoint_slice[name] = endpoint_slice.get(name) or None
    for port in endpoint_slice["ports"] or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def slice_changed(new: Body, old: Body) -> bool:
    """Whether a write raises the generation. Labels count: consumers select slices by them."""
    same = all(new.get(name) == old.get(name) for name in ("addressType", "endpoints", "ports"))
    return not same or new["metadata"].get("labels") != old["metadata"].get("labels")


ENDPOINTS = Behaviour(errors=endpoints_errors)
SLICES = Behaviour(default=default_slice, errors=slice_errors, grows=slice_changed)
