"""The environment and the command line of a container. Pure: what it refers to is given.

As Kubernetes has it: whole maps first, then the variables in order, later ones win, and `$(NAME)`
in a value, a command or an argument stands for a variable defined before; `$$` is a dollar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from swell.node.pods import (
    BoundContainer,
    BoundPod,
    EnvSource,
    EnvVar,
    KeyReference,
    WholeReference,
)
from swell.node.process.fields import ConfigError, Surroundings, field_value, resource_value

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))?")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
# What a process may need of the user's own surroundings to run at all; the rest is the pod's.
INHERITED = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "SHELL", "TMPDIR", "TZ",
    "USER", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip

Data = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Referred:
    """The ConfigMaps and Secrets, by name, that a pod's namespace has; None where one has not."""

    config_maps: Mapping[str, Data | None]
    secrets: Mapping[str, Data | None]


def environment(
    pod: BoundPod, container: BoundContainer, referred: Referred, around: Surroundings
) -> dict[str, str]:
    """The variables a container's manifest asks for; ConfigError when one cannot be had."""
    env: dict[str, str] = {}
    for source in container.env_from:
        for reference, held, kind in (
            (source.config_map_ref, referred.config_maps, "configmap"),
            (source.secret_ref, referred.secrets, "secret"),
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
            env[variable.name] = expand(variable.value, env)
            continue
        value = _sourced(pod, container, variable, referred, around)
        if value is not None:
            env[variable.name] = value
    return env


def command_line(container: BoundContainer, env: Mapping[str, str]) -> tuple[str, ...]:
    """What to execute; ConfigError when nothing is said, since there is no image to ask."""
    argv = tuple(expand(part, env) for part in (*container.command, *container.args))
    if not argv:
        message = f"container {container.name} has no command, and no image is run here"
        raise ConfigError(message, "CreateContainerError")
    return argv


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace references to variables; those to unknown ones stay as they are."""

    def replaced(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return env.get(found[2], found[0]) if found[2] is not None else found[0]

    return _REFERENCE.sub(replaced, text)


def referred_names(pod: BoundPod) -> tuple[set[str], set[str]]:
    """The ConfigMaps and the Secrets that a pod mentions."""
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
        for part in volume.parts():
            maps |= {part.config_map.name} if part.config_map else set()
            secrets |= {part.secret.source_name} if part.secret else set()
    return maps, secrets


def _sourced(
    pod: BoundPod,
    container: BoundContainer,
    variable: EnvVar,
    referred: Referred,
    around: Surroundings,
) -> str | None:
    origin = variable.value_from or EnvSource()
    if origin.field_ref is not None:
        return field_value(pod, origin.field_ref.field_path, around)
    if origin.resource_field_ref is not None:
        return resource_value(pod, origin.resource_field_ref, container.name, around)
    if origin.config_map_key_ref is not None:
        return _single(pod, origin.config_map_key_ref, referred.config_maps, "ConfigMap")
    if origin.secret_key_ref is not None:
        return _single(pod, origin.secret_key_ref, referred.secrets, "Secret")
    raise ConfigError(f"variable {variable.name} comes from something that is not supported here")


def _whole(reference: WholeReference, held: Mapping[str, Data | None], kind: str) -> Data:
    data = held.get(reference.name)
    if data is None:
        if reference.optional:
            return {}
        raise ConfigError(f'{kind} "{reference.name}" not found')
    return data


def _single(
    pod: BoundPod, reference: KeyReference, held: Mapping[str, Data | None], kind: str
) -> str | None:
    data = held.get(reference.name)
    if data is None:
        if reference.optional:
            return None
        raise ConfigError(f'{kind.lower()} "{reference.name}" not found')
    if reference.key not in data:
        if reference.optional:
            return None
        place = f"{pod.metadata.namespace}/{reference.name}"
        raise ConfigError(f"couldn't find key {reference.key} in {kind} {place}")
    return data[reference.key]
