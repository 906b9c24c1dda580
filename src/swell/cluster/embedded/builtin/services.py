"""Services, with cluster IPs from a fixed range and node ports."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.serviceaddresses import (
    EXTERNAL_NAME,
    HEADLESS,
    change_errors,
    drop_unneeded,
    is_headless,
    settle,
)
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
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# Kubernetes' default and limit of a session affinity's timeout.
AFFINITY_S = 10800
AFFINITY_S_MAX = 86400
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
TRAFFIC_POLICIES = ("Cluster", "Local")


def default(service: Body) -> None:
    spec = service["spec"]
    _default_affinity(spec)
    for port in spec.get("ports", ()):
        if not port.get("targetPort"):
            port["targetPort"] = port["port"]
    if is_external(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] != EXTERNAL_NAME:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        default_ingress(service)


def _default_affinity(spec: Body) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if "timeoutSeconds" not in config:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_S}}


def prepare(new: Body, old: Body | None, context: WriteContext) -> None:
    """Fill in and allocate first, as a real server does: what that refuses hides the rest."""
    spec = new["spec"]
    if old is not None:
        keep_ports(spec, old["spec"])
    settle(new, old, context)
    if problems := list(_node_port_errors(new, old, context))[:1]:
        raise refusals.invalid(new["kind"], "", new["metadata"].get("name") or "", problems)
    if spec["type"] != EXTERNAL_NAME:
        allocate_ports(spec, context, is_new=old is None)
    if old is not None:
        drop_unneeded(spec, old["spec"])
        drop_of_old_type(new, old)


def errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new["spec"]
    headless = is_headless(spec)
    if not spec.get("ports") and not headless and spec["type"] != EXTERNAL_NAME:
        yield field_errors.required("spec.ports")
    if headless and spec["type"] in EXTERNAL:
        detail = f"may not be set to 'None' for {spec['type']} services"
        yield field_errors.invalid("spec.clusterIPs[0]", HEADLESS, detail)
    if spec["type"] == EXTERNAL_NAME:
        yield from _external_name_errors(spec)
        _show_external_name(spec)
    if old is not None:
        yield from change_errors(spec, old["spec"])
    yield from _port_errors(spec)
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


def _show_external_name(spec: Body) -> None:
    """Write a service that is but a name as a real server shows it, whatever is stored there."""
    if spec.get("internalTrafficPolicy") in TRAFFIC_POLICIES:
        del spec["internalTrafficPolicy"]
    if spec.get("clusterIP"):
        spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]


def _external_name_errors(spec: Body) -> Iterator[FieldError]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield field_errors.forbidden(f"spec.{name}", "may not be set for ExternalName services")
    target = spec.get("externalName", "").removesuffix(".")
    if not target:
        yield field_errors.required("spec.externalName")
    else:
        yield from fields.name_errors(target, "spec.externalName")


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
