"""The fields that belong to a service's type: node ports, balancers, and those a change drops.

An update that changes the type need not take away what the server gave the service for its old
type. What the writer changed as well is left, and refused by the rules of the new type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

NODE_PORTS = range(30000, 32768)  # kube-apiserver's default
EXTERNAL = ("NodePort", "LoadBalancer")
BALANCER = "LoadBalancer"
ADDRESS_MODES = ("Proxy", "VIP")  # how packets reach an address of a balancer
ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"


def is_external(spec: Body) -> bool:
    """Whether the service can be reached from outside the cluster."""
    return spec["type"] in EXTERNAL or (
        spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def needs_health_port(spec: Body) -> bool:
    return spec["type"] == BALANCER and spec.get("externalTrafficPolicy") == "Local"


def drop_of_old_type(new: Body, old: Body) -> None:
    """Take from an updated service what its old type had and its new one cannot have."""
    spec, before = new["spec"], old["spec"]
    loses_ports = before["type"] in EXTERNAL and spec["type"] not in EXTERNAL
    if loses_ports and _node_ports_of([new]) <= _node_ports_of([old]):
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    dropped = []
    if needs_health_port(before) and not needs_health_port(spec):
        dropped.append("healthCheckNodePort")
    if before["type"] == BALANCER and spec["type"] != BALANCER:
        dropped += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if is_external(before) and not is_external(spec):
        dropped.append("externalTrafficPolicy")
    for name in dropped:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)
    if spec["type"] != BALANCER:
        new["status"] = {**new["status"], "loadBalancer": {}}


def keep_ports(spec: Body, old: Body) -> None:
    """Give ports without a number the one that they had, by their name, unless another has it."""
    if not _wants_ports(spec) or not _wants_ports(old):
        return
    had = {port.get("name", ""): port.get("nodePort") for port in old.get("ports", ())}
    given = {port.get("nodePort") for port in spec.get("ports", ())}
    for port in spec.get("ports", ()):
        number = had.get(port.get("name", ""))
        if number and number not in given and not port.get("nodePort"):
            port["nodePort"] = number


def allocate_ports(spec: Body, context: WriteContext, *, is_new: bool) -> None:
    """Choose node ports, and a port for health checks of a service that needs one.

    In a new service one number serves all protocols of a port.
    """
    ports = spec.get("ports", ())
    wanted = [*ports] if _wants_ports(spec) else []
    taken = node_ports(context) | _node_ports_of([{"spec": spec}])
    free = (port for port in NODE_PORTS if port not in taken)
    chosen = {port["port"]: port["nodePort"] for port in ports if port.get("nodePort")}
    for port in wanted:
        if not port.get("nodePort"):
            shared = chosen.get(port["port"]) if is_new else None
            port["nodePort"] = shared or _next_of(free)
            chosen[port["port"]] = port["nodePort"]
    if needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = _next_of(free)


def _wants_ports(spec: Body) -> bool:
    """Whether the ports of the service get node ports."""
    declined = spec["type"] == BALANCER and spec.get("allocateLoadBalancerNodePorts") is False
    return spec["type"] in EXTERNAL and not declined


def _next_of(free: Iterator[int]) -> int:
    found = next(free, None)
    if found is None:
        raise refusals.internal("failed to allocate a nodePort: range is full")
    return found


def node_ports(context: WriteContext) -> set[int]:
    """The node ports of all services."""
    return _node_ports_of(context.each("services"))


def _node_ports_of(services: Iterable[Body]) -> set[int]:
    specs = [one.get("spec", {}) for one in services]
    numbers = {port.get("nodePort") for spec in specs for port in spec.get("ports", ())}
    numbers |= {spec.get("healthCheckNodePort") for spec in specs}
    return {number for number in numbers if number}


def default_ingress(service: Body) -> None:
    for point in _ingress(service):
        if point.get("ip"):
            point.setdefault("ipMode", ADDRESS_MODES[1])


def balancer_errors(spec: Body, old: Body | None) -> Iterator[FieldError]:
    """The fields of load balancers; a real server writes the first with a capital letter."""
    ranges, balancer = spec.get("loadBalancerSourceRanges", ()), spec.get("loadBalancerClass")
    for index, network in enumerate(ranges):
        where = f"spec.LoadBalancerSourceRanges[{index}]"
        yield from fields.network_errors(network.strip(), where)
    if spec["type"] != BALANCER:
        if ranges:
            yield field_errors.forbidden("spec.LoadBalancerSourceRanges", ONLY_BALANCERS)
        if balancer is not None:
            yield field_errors.forbidden("spec.loadBalancerClass", ONLY_BALANCERS)
        return
    if old is not None and old["type"] == BALANCER and old.get("loadBalancerClass") != balancer:
        yield field_errors.invalid("spec.loadBalancerClass", balancer, "may not change once set")
    if balancer is not None:
        yield from fields.qualified_name_errors(balancer, "spec.loadBalancerClass")
    name = "healthCheckNodePort"
    has_kept = old is not None and needs_health_port(old) and needs_health_port(spec)
    if old is not None and has_kept and spec.get(name) != old.get(name):
        yield field_errors.forbidden(f"spec.{name}", "field is immutable")


def status_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    points, where = _ingress(new), "status.loadBalancer.ingress"
    if points and new["spec"]["type"] != BALANCER:
        yield field_errors.forbidden(where, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, point in enumerate(points):
        yield from _ingress_errors(point, f"{where}[{index}]")


def _ingress_errors(point: Body, where: str) -> Iterator[FieldError]:
    address, mode, host = point.get("ip"), point.get("ipMode"), point.get("hostname")
    if address:
        yield from fields.ip_errors(address, f"{where}.ip")
    if address and mode is None:
        yield field_errors.required(f"{where}.ipMode", "must be specified when `ip` is set")
    elif mode is not None and not address:
        detail = "may not be specified when `ip` is not set"
        yield field_errors.forbidden(f"{where}.ipMode", detail)
    elif mode is not None and mode not in ADDRESS_MODES:
        yield field_errors.not_supported(f"{where}.ipMode", mode, ADDRESS_MODES)
    if host:
        yield from fields.name_errors(host, f"{where}.hostname")
        if not list(fields.ip_errors(host, "")):
            detail = "must be a DNS name, not an IP address"
            yield field_errors.invalid(f"{where}.hostname", host, detail)


def _ingress(service: Body) -> list[Body]:
    found: list[Body] = (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or []
    return found
