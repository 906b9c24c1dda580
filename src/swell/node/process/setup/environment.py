"""The environment, the command line and the downward API of a container. Pure.

The rules are Kubernetes': `envFrom` first, then `env` in order, and later variables win. `$(NAME)`
in a value, a command or an argument stands for a variable defined before; `$$` is a dollar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.quantity import ZERO, Quantity, QuantityError, divide_away, parse
from swell.node.pods import (
    BoundContainer,
    BoundPod,
    BoundVolume,
    EnvSource,
    EnvVar,
    KeyReference,
    ResourceReference,
    WholeReference,
)

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))?")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_ONE = parse("1")
# Linux gives a program no longer variable or argument, and no more of them together.
TEXT_BYTES_MAX = (128 << 10) - 1
TOTAL_BYTES_MAX = 6 << 20
# Variables of the agent that a process may need to run at all, since there is no image that would
# bring its own. Everything else comes from the pod.
INHERITED = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "SHELL", "TMPDIR", "TZ",
    "USER", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip

Data = Mapping[str, str]


class ContainerConfigError(Exception):
    """A container asks for something that cannot be had; `reason` goes into its status."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The facts about its node that the downward API offers a pod."""

    pod_ip: str
    host_ip: str
    allocatable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReferencedNames:
    """The names of the objects that a pod, or one of its volumes, refers to."""

    config_maps: frozenset[str]
    secrets: frozenset[str]
    claims: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReferencedObjects:
    """The objects that a pod refers to, by name; None for a missing ConfigMap or Secret.

    Of a volume claim it is the folder of its volume.
    """

    config_maps: Mapping[str, Data | None]
    secrets: Mapping[str, Data | None]
    claims: Mapping[str, Path] = field(default_factory=dict)


def environment(
    pod: BoundPod, container: BoundContainer, referenced: ReferencedObjects, context: NodeContext
) -> dict[str, str]:
    """Returns the variables of a container's manifest.

    Raises ContainerConfigError for a reference to something that does not exist.
    """
    env: dict[str, str] = {}
    room = _Room(container.name)
    for source in container.env_from:
        for reference, held, kind in (
            (source.config_map_ref, referenced.config_maps, "configmap"),
            (source.secret_ref, referenced.secrets, "secret"),
        ):
            if reference is not None:
                data = _whole(reference, held, kind)
                env |= {
                    source.prefix + key: data[key]
                    for key in sorted(data)
                    if _NAME.fullmatch(source.prefix + key)
                }
    for variable in container.env:
        origin = variable.value_from
        if origin is None:
            env[variable.name] = room.expanded(variable.value, env, f"variable {variable.name}")
            continue
        value = _sourced(pod, container, variable, referenced, context)
        if value is not None:
            env[variable.name] = value
    return env


def command_line(container: BoundContainer, env: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the arguments to execute.

    Raises ContainerConfigError when there are none: no image supplies a default here.
    """
    room = _Room(container.name)
    argv = tuple(
        room.expanded(part, env, f"argument {n}")
        for n, part in enumerate((*container.command, *container.args))
    )
    if not argv:
        message = f"container {container.name} has no command, and no image is run here"
        raise ContainerConfigError(message, "CreateContainerError")
    return argv


class _Room:
    """The bytes that variables, or arguments, of one container may still take.

    A variable that names the one before it twice doubles it: sixty of them would fill any memory.
    """

    def __init__(self, container: str) -> None:
        self._container = container
        self._left = TOTAL_BYTES_MAX

    def expanded(self, text: str, env: Mapping[str, str], what: str) -> str:
        """Returns the text with its references replaced; ContainerConfigError when it is long."""
        try:
            found = expand(text, env, min(TEXT_BYTES_MAX, self._left))
        except ValueError:
            limits = f"{TEXT_BYTES_MAX:,} bytes, or all together more than {TOTAL_BYTES_MAX:,}"
            message = f"container {self._container}: {what} has more than {limits}"
            raise ContainerConfigError(message) from None
        self._left -= len(found.encode("utf-8", "surrogatepass"))
        return found


def expand(text: str, env: Mapping[str, str], n_bytes_max: int) -> str:
    """Returns the text with its references replaced; unknown ones stay as they are.

    ValueError when it would have more bytes than that, before it is made.
    """
    n_bytes = len(text.encode("utf-8", "surrogatepass"))

    def replaced(found: re.Match[str]) -> str:
        nonlocal n_bytes
        if found[1] == "$":
            n_bytes -= 1
            return "$"
        value = env.get(found[2], found[0]) if found[2] is not None else found[0]
        n_bytes += len(value) - len(found[0])
        if n_bytes > n_bytes_max:
            raise ValueError(f"more than {n_bytes_max:,} bytes")
        return value

    made = _REFERENCE.sub(replaced, text)
    if len(made.encode("utf-8", "surrogatepass")) > n_bytes_max:
        raise ValueError(f"more than {n_bytes_max:,} bytes")
    return made


def referenced_names(pod: BoundPod) -> ReferencedNames:
    """Returns the names of the objects that a pod refers to."""
    maps: set[str] = set()
    secrets: set[str] = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for source in container.env_from:
            maps |= {source.config_map_ref.name} if source.config_map_ref else set()
            secrets |= {source.secret_ref.name} if source.secret_ref else set()
        for variable in container.env:
            origin = variable.value_from
            if origin is not None:
                maps |= {origin.config_map_key_ref.name} if origin.config_map_key_ref else set()
                secrets |= {origin.secret_key_ref.name} if origin.secret_key_ref else set()
    for volume in pod.spec.volumes:
        shown = volume_names(volume)
        maps |= shown.config_maps
        secrets |= shown.secrets
    claims = {
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    return ReferencedNames(frozenset(maps), frozenset(secrets), frozenset(claims))


def volume_names(volume: BoundVolume) -> ReferencedNames:
    """Returns the names of the objects that a volume shows."""
    parts = volume.parts()
    return ReferencedNames(
        frozenset(part.config_map.name for part in parts if part.config_map is not None),
        frozenset(part.secret.source_name for part in parts if part.secret is not None),
    )


def _sourced(
    pod: BoundPod,
    container: BoundContainer,
    variable: EnvVar,
    referenced: ReferencedObjects,
    context: NodeContext,
) -> str | None:
    origin = variable.value_from or EnvSource()
    if origin.field_ref is not None:
        return field_value(pod, origin.field_ref.field_path, context)
    if origin.resource_field_ref is not None:
        return resource_value(pod, origin.resource_field_ref, container.name, context)
    if origin.config_map_key_ref is not None:
        return _single(pod, origin.config_map_key_ref, referenced.config_maps, "ConfigMap")
    if origin.secret_key_ref is not None:
        return _single(pod, origin.secret_key_ref, referenced.secrets, "Secret")
    raise ContainerConfigError(
        f"variable {variable.name} comes from something that is not supported here"
    )


def _whole(reference: WholeReference, held: Mapping[str, Data | None], kind: str) -> Data:
    data = held.get(reference.name)
    if data is None:
        if reference.optional:
            return {}
        raise ContainerConfigError(f'{kind} "{reference.name}" not found')
    return data


def _single(
    pod: BoundPod, reference: KeyReference, held: Mapping[str, Data | None], kind: str
) -> str | None:
    data = held.get(reference.name)
    if data is None:
        if reference.optional:
            return None
        raise ContainerConfigError(f'{kind.lower()} "{reference.name}" not found')
    if reference.key not in data:
        if reference.optional:
            return None
        place = f"{pod.metadata.namespace}/{reference.name}"
        raise ContainerConfigError(f"couldn't find key {reference.key} in {kind} {place}")
    return data[reference.key]


def field_value(pod: BoundPod, path: str, context: NodeContext) -> str:
    """Returns the value of a field path; ContainerConfigError for one that is not offered."""
    metadata = pod.metadata
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        source = metadata.labels if keyed[1] == "labels" else metadata.annotations
        return source.get(keyed[2], "")
    values = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": str(metadata.uid),
        "metadata.labels": _listed(metadata.labels),
        "metadata.annotations": _listed(metadata.annotations),
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": context.host_ip,
        "status.hostIPs": context.host_ip,
        "status.podIP": context.pod_ip,
        "status.podIPs": context.pod_ip,
    }
    if path not in values:
        raise ContainerConfigError(f"field {path} is not one that a container can be told")
    return values[path]


def resource_value(
    pod: BoundPod, reference: ResourceReference, own_container: str, context: NodeContext
) -> str:
    """Returns an amount in units of the divisor, rounded up.

    A limit that is not set is the node's allocatable amount, as with a kubelet.
    """
    name = reference.container_name or own_container
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    container = next((c for c in containers if c.name == name), None)
    if container is None:
        raise ContainerConfigError(
            f"there is no container {name} to tell the {reference.resource} of"
        )
    kind, _, resource = reference.resource.partition(".")
    resources = container.resources
    stated = resources.limits if kind == "limits" else resources.limits | resources.requests
    raw = stated.get(resource)
    if raw is None:
        raw = context.allocatable.get(resource, "0") if kind == "limits" else "0"
    return str(_in_units(parse(raw), _divisor(reference)))


def _divisor(reference: ResourceReference) -> Quantity:
    try:
        divisor = parse(reference.divisor)
    except QuantityError as error:
        raise ContainerConfigError(f"divisor of {reference.resource}: {error}") from error
    return divisor if divisor.nano > 0 else _ONE


def _in_units(amount: Quantity, divisor: Quantity) -> int:
    if amount == ZERO:
        return 0
    return divide_away(amount.nano, divisor.nano)


def _listed(pairs: Mapping[str, str]) -> str:
    """Returns labels as the downward API writes them: one quoted pair a line, sorted."""
    return "\n".join(f"{key}={_quoted(pairs[key])}" for key in sorted(pairs))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
