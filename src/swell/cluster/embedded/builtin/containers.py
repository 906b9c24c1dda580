"""Containers: ports, environment, mounts, resources, probes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swell.api import quantity
from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.security import container_security_errors
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
# The paths kube-apiserver can convert at all; of these, fewer are allowed in each place.
CONVERTIBLE = frozenset({
    *FIELD_PATHS, *SUBSCRIPTED, "spec.restartPolicy", "spec.schedulerName", "status.phase",
})  # fmt: skip
CPU_DIVISORS = ("0", "1", "1m")
SIZE_DIVISORS = (
    "0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
)  # fmt: skip
RESOURCE_FIELDS = tuple(
    f"{side}.{name}"
    for side in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
HUGE_PAGES = re.compile(r"hugepages-([1-9][0-9]{0,3}[KMG]i)")
ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")
READ_ONLY_MODES = ("Disabled", "IfPossible", "Enabled")


def claim_errors(container: Body, claims: list[Body], path: str) -> Iterator[FieldError]:
    """A container may use only the claims of its pod, each whole or some of its requests."""
    names = [claim.get("name") for claim in claims]
    used: set[str] = set()
    for index, claim in enumerate(container.get("resources", {}).get("claims", ())):
        name, request = claim.get("name", ""), claim.get("request", "")
        where = f"{path}.resources.claims[{index}]"
        if not name:
            yield field_errors.required(where)
            continue
        if request:
            yield from fields.name_errors(request, f"{where}.request", "label")
        part = f"{name}/{request}" if request else name
        if name in used or part in used:
            yield field_errors.duplicate(where, part)
        used.add(part)
        if name not in names:
            yield field_errors.not_found(where, name)


def container_errors(container: Body, volumes: set[str], path: str) -> Iterator[FieldError]:
    """The checks that containers and init containers share."""
    name, image = container.get("name", ""), container.get("image", "")
    if name:
        yield from fields.name_errors(name, f"{path}.name", "label")
    if not image:
        yield field_errors.required(f"{path}.image")
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield field_errors.invalid(f"{path}.image", image, detail)
    yield from _port_errors(container.get("ports", ()), f"{path}.ports")
    for index, variable in enumerate(container.get("env", ())):
        yield from _env_errors(variable, f"{path}.env[{index}]")
    yield from _env_from_errors(container.get("envFrom", ()), f"{path}.envFrom")
    yield from _mount_errors(container.get("volumeMounts", []), volumes, f"{path}.volumeMounts")
    yield from _mount_mode_errors(container, volumes, path)
    yield from resource_errors(container.get("resources", {}), f"{path}.resources")
    yield from container_security_errors(
        container.get("securityContext", {}), f"{path}.securityContext"
    )


def handler_errors(container: Body, grace_s: int, path: str) -> Iterator[FieldError]:
    """Probes and lifecycle hooks."""
    for name in PROBES:
        probe = container.get(name)
        if probe is not None:
            yield from _probe_errors(name, probe, grace_s, f"{path}.{name}")
    lifecycle = container.get("lifecycle", {})
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler_errors(lifecycle[hook], grace_s, f"{path}.lifecycle.{hook}")


def init_container_errors(container: Body, grace_s: int, path: str) -> Iterator[FieldError]:
    """An init container may have probes and hooks only as a sidecar (restartPolicy Always)."""
    if container.get("restartPolicy") == "Always":
        yield from handler_errors(container, grace_s, path)
        return
    for name in ("lifecycle", *PROBES):
        if name in container:
            detail = "may not be set for init containers without restartPolicy=Always"
            yield field_errors.forbidden(f"{path}.{name}", detail)


def host_port_errors(containers: list[Body], path: str) -> Iterator[FieldError]:
    """No two containers may use the same port of the host."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for at, port in enumerate(container.get("ports", ())):
            wanted = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port.get('hostPort')}"
            if port.get("hostPort") and wanted in seen:
                yield field_errors.duplicate(f"{path}[{index}].ports[{at}].hostPort", wanted)
            seen.add(wanted)


def _port_errors(ports: list[Body], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name", "")
        if name:
            problems = list(fields.port_name_errors(name, f"{where}.name"))
            yield from problems
            if not problems and name in names:
                yield field_errors.duplicate(f"{where}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield field_errors.required(f"{where}.containerPort")
        else:
            yield from fields.port_number_errors(port["containerPort"], f"{where}.containerPort")
        if port.get("hostPort"):
            yield from fields.port_number_errors(port["hostPort"], f"{where}.hostPort")


# --- environment -------------------------------------------------------------------------------


def _env_name_errors(variable: Body, path: str) -> Iterator[FieldError]:
    if variable.get("name"):
        yield from fields.env_name_errors(variable["name"], path)
    elif "name" in variable:  # a name that is not there at all is reported with other such fields
        yield field_errors.required(path)


def _env_errors(variable: Body, path: str) -> Iterator[FieldError]:
    yield from _env_name_errors(variable, f"{path}.name")
    source = variable.get("valueFrom")
    if source is None:
        return
    where = f"{path}.valueFrom"
    chosen = [name for name in ENV_SOURCES if name in source]
    if "fieldRef" in source:
        yield from field_ref_errors(source["fieldRef"], f"{where}.fieldRef", FIELD_PATHS)
    if "resourceFieldRef" in source:
        yield from resource_ref_errors(source["resourceFieldRef"], f"{where}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            yield from _key_ref_errors(source[name], f"{where}.{name}")
    if not chosen:
        yield field_errors.invalid(where, "", f"must specify one of: {', '.join(ENV_SOURCES)}")
    elif variable.get("value"):
        yield field_errors.invalid(where, "", "may not be specified when `value` is not empty")
    elif len(chosen) > 1:
        yield field_errors.invalid(
            where, "", "may not have more than one field specified at a time"
        )


def field_ref_errors(ref: Body, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    """A reference to a field of the pod; `allowed` are the paths this place supports."""
    field_path = ref.get("fieldPath", "")
    base, bracket, key = field_path.partition("['")
    if not field_path:
        return  # the schema has reported it as required
    if bracket and key.endswith("']"):
        if base in SUBSCRIPTED:
            # Keys of annotations are validated in lower case.
            shown = key[:-2].lower() if base.endswith("annotations") else key[:-2]
            yield from fields.qualified_name_errors(shown, path)
        else:
            yield field_errors.invalid(
                f"{path}.fieldPath", field_path, "error converting fieldPath"
            )
    elif field_path in CONVERTIBLE and ref.get("apiVersion") == "v1":
        if field_path not in allowed:
            yield field_errors.not_supported(f"{path}.fieldPath", field_path, allowed)
    else:
        yield field_errors.invalid(f"{path}.fieldPath", field_path, "error converting fieldPath")


def resource_ref_errors(ref: Body, path: str) -> Iterator[FieldError]:
    resource = ref.get("resource", "")
    # Huge pages come in sizes, so their names are open-ended.
    huge = resource.startswith(("limits.hugepages-", "requests.hugepages-"))
    if resource and resource not in RESOURCE_FIELDS and not huge:
        yield field_errors.not_supported(f"{path}.resource", resource, RESOURCE_FIELDS)
        return
    divisors = CPU_DIVISORS if resource.endswith(".cpu") else SIZE_DIVISORS
    if ref.get("divisor", "0") not in divisors:
        yield field_errors.invalid(
            f"{path}.divisor", resource, f"must be one of {', '.join(divisors)}"
        )


def _key_ref_errors(ref: Body, path: str) -> Iterator[FieldError]:
    yield from fields.name_errors(ref.get("name", ""), f"{path}.name")
    if ref.get("key"):
        yield from fields.config_key_errors(ref["key"], f"{path}.key")


def _env_from_errors(sources: list[Body], path: str) -> Iterator[FieldError]:
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if source.get("prefix"):
            yield from fields.env_name_errors(source["prefix"], f"{where}.prefix")
        chosen = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in chosen:
            if not source[name].get("name"):
                yield field_errors.required(f"{where}.{name}.name")
            else:
                yield from fields.name_errors(source[name]["name"], f"{where}.{name}.name")
        if len(chosen) != 1:
            yield field_errors.invalid(
                path, "", "must specify one of: `configMapRef` or `secretRef`"
            )


# --- mounts and resources ----------------------------------------------------------------------


def _mount_errors(mounts: list[Body], volumes: set[str], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where, target = f"{path}[{index}]", mount.get("mountPath", "")
        if mount.get("name", "") not in volumes:
            yield field_errors.not_found(f"{where}.name", mount.get("name", ""))
        if target in seen:
            yield field_errors.invalid(f"{where}.mountPath", target, "must be unique")
        seen.add(target)
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                yield from fields.relative_path_errors(mount[name], f"{path}.{name}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield field_errors.invalid(f"{where}.subPathExpr", mount["subPathExpr"], detail)


def _mount_mode_errors(container: Body, volumes: set[str], path: str) -> Iterator[FieldError]:
    """Errors that kube-apiserver reports without the index of the mount."""
    for index, device in enumerate(container.get("volumeDevices", ())):
        if device.get("name") not in volumes:
            where = f"{path}.volumeDevices[{index}].name"
            yield field_errors.not_found(where, device.get("name", ""))
    privileged = container.get("securityContext", {}).get("privileged")
    for mount in container.get("volumeMounts", ()):
        for name, known in (
            ("mountPropagation", PROPAGATIONS),
            ("recursiveReadOnly", READ_ONLY_MODES),
        ):
            if mount.get(name, known[0]) not in known:
                yield field_errors.not_supported(f"{path}.volumeMounts.{name}", mount[name], known)
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            detail = "Bidirectional mount propagation is available only to privileged containers"
            yield field_errors.forbidden(f"{path}.volumeMounts.mountPropagation", detail)
        recursive = mount.get("recursiveReadOnly", "Disabled") in READ_ONLY_MODES[1:]
        if recursive and not mount.get("readOnly"):
            detail = "may only be specified when readOnly is true"
            yield field_errors.forbidden(f"{path}.volumeMounts.recursiveReadOnly", detail)


def resource_errors(resources: Body, path: str) -> Iterator[FieldError]:
    """Requests and limits: known names, no negative quantities, requests within limits."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{side}[{name}]"
            yield from resource_name_errors(name, where)
            yield from _amount_errors(name, amount, where)
    for name, amount in requests.items():
        yield from _request_errors(name, amount, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        yield field_errors.forbidden(path, "HugePages require cpu or memory")


def resource_name_errors(name: str, where: str) -> Iterator[FieldError]:
    problems = list(fields.qualified_name_errors(name, where))
    yield from problems
    if problems:
        return
    if "/" not in name and not is_standard_resource(name):
        yield field_errors.invalid(
            where, name, "must be a standard resource type or fully qualified"
        )
    elif "/" in name and name.startswith("requests."):
        yield field_errors.invalid(where, name, "doesn't follow extended resource name standard")


def _amount_errors(name: str, amount: str, where: str) -> Iterator[FieldError]:
    value = quantity.parse(amount)
    if value.nano < 0:
        yield field_errors.invalid(where, amount, "must be greater than or equal to 0")
    if "/" in name and value.nano % quantity.NANO:
        yield field_errors.invalid(where, amount, "must be an integer")
    page = HUGE_PAGES.fullmatch(name)
    if page and value.nano % quantity.parse(page[1]).nano:
        yield field_errors.invalid(where, amount, "must be a multiple of the size of a page")


def _request_errors(name: str, amount: str, limit: str | None, path: str) -> Iterator[FieldError]:
    # cpu and memory may be overcommitted; huge pages and extended resources may not.
    flexible = "/" not in name and not name.startswith("hugepages-")
    if limit is None:
        if not flexible and (is_standard_resource(name) or "/" in name):
            detail = "Limit must be set for non overcommitable resources"
            yield field_errors.required(f"{path}.limits", detail)
        return
    wanted, most = quantity.parse(amount), quantity.parse(limit)
    if not flexible and wanted != most:
        detail = f"must be equal to {name} limit of {limit}"
        yield field_errors.invalid(f"{path}.requests", amount, detail)
    elif wanted > most:
        detail = f"must be less than or equal to {name} limit of {limit}"
        yield field_errors.invalid(f"{path}.requests", amount, detail)


def is_standard_resource(name: str) -> bool:
    return name in STANDARD_RESOURCES or name.startswith("hugepages-")


# --- probes, hooks, restarts -------------------------------------------------------------------


def _probe_errors(name: str, probe: Body, grace_s: int, path: str) -> Iterator[FieldError]:
    yield from _handler_errors(probe, grace_s, path)
    for field in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from fields.non_negative(probe, field, path)
    # After a success, liveness and startup have nothing more to wait for.
    if name != "readinessProbe" and probe.get("successThreshold") != 1:
        yield field_errors.invalid(
            f"{path}.successThreshold", probe["successThreshold"], "must be 1"
        )
    grace = probe.get("terminationGracePeriodSeconds")
    where = f"{path}.terminationGracePeriodSeconds"
    if grace is not None and name == "readinessProbe":
        yield field_errors.invalid(where, grace, "must not be set for readinessProbes")
    elif grace is not None and grace <= 0:
        yield field_errors.invalid(where, grace, "must be greater than 0")


def _handler_errors(handler: Body, grace_s: int, path: str) -> Iterator[FieldError]:
    chosen = [name for name in HANDLERS if name in handler]
    if not chosen:
        yield field_errors.required(path, "must specify a handler type")
        return
    for name in chosen[1:]:
        yield field_errors.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
    first = chosen[0]  # only the first handler is checked
    action, where = handler[first], f"{path}.{first}"
    if first == "exec" and not action.get("command"):
        yield field_errors.required(f"{where}.command")
    elif first in {"httpGet", "tcpSocket", "grpc"}:
        yield from fields.port_errors(action.get("port", 0), f"{where}.port")
        for header in action.get("httpHeaders", ()):
            if not fields.HEADER_NAME.fullmatch(header.get("name", "")):
                name = header.get("name", "")
                yield field_errors.invalid(f"{where}.httpHeaders", name, "is no name of a header")
    elif first == "sleep" and not 0 <= action.get("seconds", 0) <= grace_s:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        yield field_errors.invalid(where, action.get("seconds", 0), detail)
