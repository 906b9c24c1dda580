"""Services, with cluster IPs from a fixed range and node ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.servicetypes import (
    EXTERNAL,
    NODE_PORTS,
    ONLY_BALANCERS,
    allocate_ports,
    balancer_errors,
    default_ingress,
    drop_of_old_type,
    is_external,
    keep_ports,
    needs_health_port,
    node_ports,
    status_errors,
)
from swell.cluster.embedded.builtin.warnings import service_warnings
from swell.cluster.embedded.objectmeta import name_problems
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# The first /16 of kubeadm's default range.
ADDRESSES = ipaddress.IPv4Network("10.96.0.0/16")
# Kubernetes' default and limit of a session affinity's timeout.
AFFINITY_S = 10800
AFFINITY_S_MAX = 86400
HEADLESS = "None"
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
FAMILIES = ("IPv4", "IPv6")
STACKS = ("PreferDualStack", "RequireDualStack", "SingleStack")
TRAFFIC_POLICIES = ("Cluster", "Local")
# The server fills these in; a write without them means no change.
KEPT_ON_UPDATE = ("clusterIPs", "clusterIP", "ipFamilies", "ipFamilyPolicy")


def default(service: Body) -> None:
    spec = service["spec"]
    _default_affinity(spec)
    for port in spec.get("ports", ()):
        if not port.get("targetPort"):
            port["targetPort"] = port["port"]
    if is_external(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        default_ingress(service)
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
        drop_of_old_type(new, old)
    if spec["type"] == "ExternalName":
        if old is not None and old["spec"]["type"] != "ExternalName":
            for name in (*KEPT_ON_UPDATE, "internalTrafficPolicy"):
                # An address that the writer chose himself is refused instead.
                if name != "clusterIPs" or spec.get("clusterIP") in {
                    None,
                    old["spec"]["clusterIP"],
                }:
                    spec.pop(name, None)
        return
    if unmet := list(_family_problems(spec, old)):
        raise refusals.invalid(new["kind"], "", new["metadata"].get("name") or "", unmet)
    _set_addresses(new, context)
    allocate_ports(spec, context, is_new=old is None)


def _set_addresses(new: Body, context: WriteContext) -> None:
    """Allocate an address where none is given, and say its family."""
    spec = new["spec"]
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        name = new["metadata"].get("name") or ""
        if problems := name_problems(name, "segment") or (() if name else ("is empty",)):
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
    if needs_health_port(old) and needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old.get("healthCheckNodePort")
    keep_ports(spec, old)


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
        where = f"spec.externalIPs[{index}]"
        problems = list(fields.ip_errors(address, where))
        yield from problems or fields.special_address_errors(address, where)
    yield from _external_errors(spec)
    yield from balancer_errors(spec, (old or {}).get("spec"))
    distribution = spec.get("trafficDistribution", DISTRIBUTIONS[0])
    if distribution not in DISTRIBUTIONS:
        yield field_errors.not_supported("spec.trafficDistribution", distribution, DISTRIBUTIONS)
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        yield field_errors.forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCERS)


def _external_errors(spec: Body) -> Iterator[FieldError]:
    """The fields of services that can be reached from outside."""
    policy = spec.get("externalTrafficPolicy")
    if policy and not is_external(spec):
        detail = "may only be set for externally-accessible services"
        yield field_errors.invalid("spec.externalTrafficPolicy", policy, detail)
    elif policy and policy not in TRAFFIC_POLICIES:
        yield field_errors.not_supported("spec.externalTrafficPolicy", policy, TRAFFIC_POLICIES)
    if spec.get("healthCheckNodePort") and not needs_health_port(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and the traffic policy is 'Local'"
        yield field_errors.invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], detail)


def _family_problems(spec: Body, old: Body | None) -> Iterator[FieldError]:
    """Families that are unknown, or that a cluster with IPv4 alone cannot give.

    A real server looks at them before anything else, and at those that are known last.
    """
    families = spec.get("ipFamilies", ())
    if malformed := list(_malformed_families(spec, families)):
        yield from malformed
        return
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        return
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        yield field_errors.invalid("spec.ipFamilyPolicy", "RequireDualStack", detail)
    if old is None and not spec.get("clusterIP"):
        if len(families) > 1 and spec.get("ipFamilyPolicy", "SingleStack") == "SingleStack":
            detail = "must allow two stacks when multiple IP families are specified"
            yield field_errors.invalid("spec.ipFamilyPolicy", "SingleStack", detail)
            return
        for index, family in enumerate(families):
            if family == "IPv6":
                detail = "not configured on this cluster"
                yield field_errors.invalid(f"spec.ipFamilies[{index}]", family, detail)


def _malformed_families(spec: Body, families: Sequence[str]) -> Iterator[FieldError]:
    if spec.get("ipFamilyPolicy", STACKS[0]) not in STACKS:
        yield field_errors.not_supported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], STACKS)
    for index, family in enumerate(families):
        field = f"spec.ipFamilies[{index}]"
        if family not in FAMILIES:
            yield field_errors.not_supported(field, family, FAMILIES)
        if family in families[:index]:
            yield field_errors.duplicate(field, family)


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
            fresh = not old.get("clusterIPs")
            yield from problems or (_range_errors(address, addresses) if fresh else ())
        elif len(addresses) > 1:
            detail = "'None' must be the first and only value"
            yield field_errors.invalid("spec.clusterIPs", addresses, detail)
    yield from _family_errors(addresses, spec["ipFamilies"])
    if len(addresses) > 2:
        yield field_errors.invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")
    before = old.get("clusterIPs", [])
    # Where one of clusterIP and clusterIPs says None and the other does not: refused above.
    given = spec.get("clusterIP")
    odd = addresses[:1] != [given] and HEADLESS in {given, *addresses[:1]}
    if old.get("type") != "ExternalName" and before and before[:1] != addresses[:1] and not odd:
        yield field_errors.invalid("spec.clusterIPs[0]", addresses, "may not change once set")


def _family_errors(addresses: list[str], families: list[str]) -> Iterator[FieldError]:
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if address != HEADLESS and family in FAMILIES and _family(address) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield field_errors.invalid(f"spec.clusterIPs[{index}]", address, detail)


def _range_errors(address: str, addresses: list[str]) -> Iterator[FieldError]:
    if ipaddress.ip_address(address) not in ADDRESSES:
        detail = "failed to allocate IP: the provided network does not match the current range"
        yield field_errors.invalid("spec.clusterIPs", addresses, detail)


def _port_errors(spec: Body) -> Iterator[FieldError]:
    ports = spec.get("ports", [])
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    node_numbers: set[tuple[str, int]] = set()
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
        node_number = (port.get("protocol", "TCP"), port.get("nodePort") or 0)
        if node_number[1] and node_number in node_numbers:
            yield field_errors.duplicate(f"{where}.nodePort", list(node_number))
        node_numbers.add(node_number)
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
    taken = node_ports(context) if wanted else set()
    for index, number in wanted:
        if number in taken:
            detail = "provided port is already allocated"
        elif number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            detail = f"provided port is not in the valid range. The range of valid ports is {valid}"
        else:
            continue
        yield field_errors.invalid(f"spec.ports[{index}].nodePort", number, detail)


SERVICES = Behaviour(
    default=default,
    prepare=prepare,
    errors=errors,
    warnings=service_warnings,
    status_errors=status_errors,
)
