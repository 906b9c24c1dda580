"""What a pod can learn about itself: its fields and the amounts its containers ask for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.quantity import ZERO, Quantity, QuantityError, divide_away, parse
from swell.node.pods import BoundPod, ResourceReference

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_ONE = parse("1")


class ConfigError(Exception):
    """A container cannot be given what it asks for; `reason` is what its status says."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod is told about where it runs."""

    pod_ip: str
    host_ip: str
    allocatable: Mapping[str, str]


def field_value(pod: BoundPod, path: str, around: Surroundings) -> str:
    """The value of a field path; ConfigError for one that pods cannot be told."""
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
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
    }
    if path not in values:
        raise ConfigError(f"field {path} is not one that a container can be told")
    return values[path]


def resource_value(
    pod: BoundPod, reference: ResourceReference, own_container: str, around: Surroundings
) -> str:
    """An amount in units of the divisor, rounded up; a missing limit is what the node has."""
    name = reference.container_name or own_container
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    container = next((c for c in containers if c.name == name), None)
    if container is None:
        raise ConfigError(f"there is no container {name} to tell the {reference.resource} of")
    kind, _, resource = reference.resource.partition(".")
    resources = container.resources
    stated = resources.limits if kind == "limits" else resources.limits | resources.requests
    raw = stated.get(resource)
    if raw is None:
        raw = around.allocatable.get(resource, "0") if kind == "limits" else "0"
    return str(_in_units(parse(raw), _divisor(reference)))


def _divisor(reference: ResourceReference) -> Quantity:
    try:
        divisor = parse(reference.divisor)
    except QuantityError as error:
        raise ConfigError(f"divisor of {reference.resource}: {error}") from error
    return divisor if divisor.nano > 0 else _ONE


def _in_units(amount: Quantity, divisor: Quantity) -> int:
    if amount == ZERO:
        return 0
    return divide_away(amount.nano, divisor.nano)


def _listed(pairs: Mapping[str, str]) -> str:
    """As the downward API writes labels: one quoted pair a line, sorted."""
    return "\n".join(f"{key}={_quoted(pairs[key])}" for key in sorted(pairs))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
