"""The spec of a pod, alone or in a template: computed defaults, and validation across fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swell.api import quantity
from swell.api.meta import Body
from swell.cluster.embedded.builtin import containers, fields
from swell.cluster.embedded.builtin.images import pull_policy
from swell.cluster.embedded.builtin.restarts import (
    init_restart_errors,
    resize_errors,
    restart_errors,
)
from swell.cluster.embedded.builtin.scheduling import scheduling_errors
from swell.cluster.embedded.builtin.security import host_namespace_errors, pod_security_errors
from swell.cluster.embedded.builtin.volumes import default_volume, volume_errors
from swell.cluster.embedded.objectmeta import annotation_errors
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# Kubernetes' limits of dnsConfig.
NAMESERVERS_MAX = 3
SEARCHES_MAX = 32
SYSTEMS = ("linux", "windows")
# Linux's limit of a host name.
HOSTNAME_LENGTH_MAX = 64
WHOLE_RESOURCES = ("cpu", "memory")  # that a whole pod may ask for, beside huge pages


def default_pod_spec(spec: Body) -> None:
    """Set the computed defaults that pods and pod templates share."""
    for container in all_containers(spec):
        container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    for volume in spec.get("volumes", ()):
        default_volume(volume)
    # serviceAccount is the older name of serviceAccountName; both are served.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_pod_only(spec: Body) -> None:
    """Set the computed defaults of pods that templates do not get."""
    spec.setdefault("enableServiceLinks", True)
    # kube-apiserver accepts a negative period, and stores 1 of it in pods.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _default_whole(spec)
    for container in all_containers(spec):
        resources = container.get("resources", {})
        # A limit without a request is also the request.
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        _drop_stop_signal(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])


def _drop_stop_signal(container: Body) -> None:
    """Drop a field of a feature that a real server has off by default, as it does."""
    lifecycle = container.get("lifecycle") or {}
    if "stopSignal" in lifecycle:
        del lifecycle["stopSignal"]
        if not lifecycle:
            del container["lifecycle"]


def _default_whole(spec: Body) -> None:
    """Make a limit of the whole pod its request, too, where no container requests the resource."""
    whole = spec.get("resources", {})
    asked = {
        name
        for container in all_containers(spec)
        for name in container.get("resources", {}).get("requests", {})
    }
    limits = whole.get("limits", {}).items()
    added = {name: amount for name, amount in limits if name not in asked and _may_be_whole(name)}
    if added:
        whole["requests"] = {**added, **whole.get("requests", {})}


def all_containers(spec: Body) -> list[Body]:
    return [*spec.get("containers", ()), *spec.get("initContainers", ())]


def pod_spec_errors(spec: Body, path: str, *, is_pod: bool = False) -> Iterator[FieldError]:
    volumes, errors = volume_errors(spec.get("volumes", []), f"{path}.volumes", is_pod=is_pod)
    yield from errors
    yield from _container_list_errors(spec, volumes, path)
    yield from scheduling_errors(spec, path)
    yield from _dns_errors(spec, path)
    yield from _host_network_errors(spec, path, is_pod=is_pod)
    yield from _name_errors(spec, path)
    yield from _hostname_errors(spec, path)
    if "resources" in spec:
        yield from _whole_errors(spec, path)
    yield from pod_security_errors(spec.get("securityContext", {}), f"{path}.securityContext")
    yield from host_namespace_errors(spec, path)
    yield from _claim_errors(spec.get("resourceClaims", ()), f"{path}.resourceClaims")
    system = spec.get("os", {}).get("name", "linux")
    if system and system not in SYSTEMS:
        yield field_errors.not_supported(f"{path}.os", system, SYSTEMS)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= fields.INT32_MAX:
        detail = f"must be between 1 and {fields.INT32_MAX}, inclusive"
        yield field_errors.invalid(f"{path}.activeDeadlineSeconds", deadline, detail)
    for index, alias in enumerate(spec.get("hostAliases", ())):
        where = f"{path}.hostAliases[{index}]"
        yield from fields.ip_errors(alias.get("ip", ""), f"{where}.ip")
        for at, host in enumerate(alias.get("hostnames", ())):
            yield from fields.name_errors(host, f"{where}.hostnames[{at}]")
    for index, gate in enumerate(spec.get("readinessGates", ())):
        where = f"{path}.readinessGates[{index}].conditionType"
        yield from fields.qualified_name_errors(gate.get("conditionType", ""), where)


def _claim_errors(claims: list[Body], path: str) -> Iterator[FieldError]:
    """A claim names either a claim that exists or the template to make one from."""
    names: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name")
        if name in names:
            yield field_errors.duplicate(f"{where}.name", name)
        elif name:
            yield from fields.name_errors(name, f"{where}.name", "label")
            names.add(name)
        sources = [
            key for key in ("resourceClaimName", "resourceClaimTemplateName") if key in claim
        ]
        for key in sources:
            yield from fields.name_errors(claim[key], f"{where}.{key}")
        if len(sources) != 1:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield field_errors.invalid(where, claim, detail)


def _container_list_errors(spec: Body, volumes: set[str], path: str) -> Iterator[FieldError]:
    grace_s = spec.get("terminationGracePeriodSeconds", 0)
    if not spec.get("containers"):
        yield field_errors.required(f"{path}.containers")
    names: set[str] = set()
    for index, container in enumerate(spec.get("containers", ())):
        where = f"{path}.containers[{index}]"
        yield from containers.container_errors(container, volumes, where)
        yield from containers.handler_errors(container, grace_s, where)
        yield from containers.claim_errors(container, spec.get("resourceClaims", []), where)
        yield from restart_errors(container, where)
        yield from resize_errors(container, spec.get("restartPolicy", ""), where)
        yield from _unique_name(container, names, where)
    yield from containers.host_port_errors(spec.get("containers", []), f"{path}.containers")
    for index, container in enumerate(spec.get("initContainers", ())):
        where = f"{path}.initContainers[{index}]"
        yield from containers.container_errors(container, volumes, where)
        yield from containers.init_container_errors(container, grace_s, where)
        yield from init_restart_errors(container, where)
        yield from resize_errors(container, spec.get("restartPolicy", ""), where)
        yield from _unique_name(container, names, where)
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        where = f"{path}.ephemeralContainers[{index}]"
        if not container.get("image"):
            yield field_errors.required(f"{where}.image")
        if container.get("name"):
            yield from fields.name_errors(container["name"], f"{where}.name", "label")
        if container.get("restartPolicyRules"):
            detail = "cannot be set for an ephemeral container"
            yield field_errors.forbidden(f"{where}.restartPolicyRules", detail)


def _unique_name(container: Body, names: set[str], path: str) -> Iterator[FieldError]:
    name = container.get("name", "")
    if name and name in names:
        yield field_errors.duplicate(f"{path}.name", name)
    names.add(name)


def _name_errors(spec: Body, path: str) -> Iterator[FieldError]:
    for field, rule in (
        ("hostname", "label"),
        ("subdomain", "label"),
        ("nodeName", "subdomain"),
        ("priorityClassName", "subdomain"),
        ("runtimeClassName", "subdomain"),
        ("serviceAccountName", "subdomain"),
    ):
        if spec.get(field):
            yield from fields.name_errors(spec[field], f"{path}.{field}", rule)


def _hostname_errors(spec: Body, path: str) -> Iterator[FieldError]:
    hostname, where = spec.get("hostnameOverride"), f"{path}.hostnameOverride"
    if hostname is None:
        return
    for name in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(name):
            yield field_errors.forbidden(where, f"may not be specified when {name} is true")
    if len(hostname) > HOSTNAME_LENGTH_MAX:
        yield field_errors.too_long(where, HOSTNAME_LENGTH_MAX)
    yield from fields.name_errors(hostname, where)


def _whole_errors(spec: Body, path: str) -> Iterator[FieldError]:
    """The resources of the whole pod: fewer kinds, and no less than its containers have."""
    whole, where = spec["resources"], f"{path}.resources"
    if "claims" in whole:
        yield field_errors.forbidden(f"{where}.claims", "may not be set for the whole pod")
        yield from containers.claim_errors(spec, spec.get("resourceClaims", []), path)
    found = list(containers.resource_errors(whole, where))
    yield from found
    for side in ("limits", "requests"):
        for name in whole.get(side, {}):
            field = f"{where}.{side}[{name}]"
            if not _may_be_whole(name) and not _names_nothing(name, field):
                yield field_errors.not_supported(field, name, WHOLE_RESOURCES)
    for name, least in _asked_together(spec).items():
        amount = whole.get("requests", {}).get(name)
        if amount is not None and quantity.parse(amount).nano < least:
            detail = "must be greater than or equal to aggregate container requests"
            yield field_errors.invalid(f"{where}.requests[{name}]", amount, detail)
    for index, container in enumerate(spec.get("containers", ())):
        for name, amount in container.get("resources", {}).get("limits", {}).items():
            limit = whole.get("limits", {}).get(name)
            if limit is not None and quantity.parse(amount).nano > quantity.parse(limit).nano:
                field = f"{where}.containers[{index}][{name}].limits"
                yield field_errors.invalid(field, amount, "must be no more than that of the pod")


def _may_be_whole(name: str) -> bool:
    return name in WHOLE_RESOURCES or name.startswith("hugepages-")


def _names_nothing(name: str, field: str) -> bool:
    return any(True for _ in containers.resource_name_errors(name, field))


def _asked_together(spec: Body) -> dict[str, int]:
    """The sum of what containers request: init containers run before the rest, sidecars beside."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for container in spec.get("initContainers", ()):
        asked = _requests_of(container)
        if container.get("restartPolicy") == "Always":
            running += asked
        most |= running + asked if container.get("restartPolicy") != "Always" else running
    for container in spec.get("containers", ()):
        running += _requests_of(container)
    return dict(most | running)


def _requests_of(container: Body) -> Counter[str]:
    requests = container.get("resources", {}).get("requests", {})
    return Counter({name: quantity.parse(amount).nano for name, amount in requests.items()})


def _dns_errors(spec: Body, path: str) -> Iterator[FieldError]:
    config, where = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield field_errors.required(where, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            yield field_errors.required(
                f"{where}.nameservers", "must provide at least one nameserver"
            )
    if config is None:
        return
    yield from _dns_config_errors(config, where)


def _dns_config_errors(config: Body, path: str) -> Iterator[FieldError]:
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > NAMESERVERS_MAX:
        yield field_errors.invalid(f"{path}.nameservers", servers, f"at most {NAMESERVERS_MAX}")
    if len(searches) > SEARCHES_MAX:
        yield field_errors.invalid(f"{path}.searches", searches, f"at most {SEARCHES_MAX}")
    for index, server in enumerate(servers):
        yield from fields.ip_errors(server, f"{path}.nameservers[{index}]")
    for index, search in enumerate(searches):
        if search != ".":  # the root domain
            # Search domains may have underscores and a final dot, unlike names of objects.
            plain = search.removesuffix(".").replace("_", "-")
            yield from fields.name_errors(plain, f"{path}.searches[{index}]")
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            yield field_errors.required(f"{path}.options[{index}]", "must not be empty")


def _host_network_errors(spec: Body, path: str, *, is_pod: bool) -> Iterator[FieldError]:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers", ())):
        for at, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort", 0)
            # In a template the host port may still be missing: pods get it by default.
            if (is_pod or host) and host != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{at}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield field_errors.invalid(where, host, detail)


def template_errors(template: Body, path: str) -> Iterator[FieldError]:
    """The errors of a pod template in another kind's spec."""
    metadata = template.get("metadata", {})
    yield from fields.labels_errors(metadata.get("labels", {}), f"{path}.labels")
    yield from annotation_errors(metadata.get("annotations", {}), f"{path}.annotations")
    spec = template.get("spec", {})
    yield from pod_spec_errors(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield field_errors.forbidden(f"{path}.spec.ephemeralContainers", detail)
