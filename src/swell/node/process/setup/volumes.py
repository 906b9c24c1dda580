"""The files of the volumes that show API objects: ConfigMaps, Secrets, the downward API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.meta import Key
from swell.node.pods import (
    BoundPod,
    BoundVolume,
    ConfigMapVolume,
    DownwardVolume,
    SecretVolume,
    VolumePart,
)
from swell.node.process.setup.environment import (
    ContainerConfigError,
    Data,
    NodeContext,
    ReferencedObjects,
    field_value,
    resource_value,
)


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file of a volume. Bytes that are not UTF-8 are kept as surrogates."""

    text: str
    mode: int


Files = Mapping[str, FileContent]  # by path within the volume


def is_written(volume: BoundVolume) -> bool:
    """Whether the agent writes the volume's files, and renews them when their sources change."""
    return any(volume.parts())


def written_volumes(pod: BoundPod) -> list[BoundVolume]:
    return [volume for volume in pod.spec.volumes if is_written(volume)]


def mutable_fields(pod: BoundPod) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the fields that the downward API offers and that can change."""
    return pod.metadata.labels, pod.metadata.annotations


def mounts_secrets(pod: BoundPod) -> bool:
    return any(part.secret is not None for volume in pod.spec.volumes for part in volume.parts())


def mounted_maps(pod: BoundPod) -> set[Key]:
    parts = [part for volume in pod.spec.volumes for part in volume.parts()]
    namespace = pod.metadata.namespace
    return {Key(namespace, part.config_map.name) for part in parts if part.config_map is not None}


def volume_files(
    pod: BoundPod, volume: BoundVolume, referenced: ReferencedObjects, context: NodeContext
) -> Files:
    """Returns the files a volume should have.

    Raises ContainerConfigError when an object or key that it needs is missing.
    """
    files: dict[str, FileContent] = {}
    for part in volume.parts():
        files |= _part_files(pod, part, referenced, context)
    for path in files:
        if path.startswith("/") or ".." in path.split("/"):
            raise ContainerConfigError(f"volume {volume.name}: {path} is no path within it")
    return files


def _part_files(
    pod: BoundPod, part: VolumePart, referenced: ReferencedObjects, context: NodeContext
) -> dict[str, FileContent]:
    if part.config_map is not None:
        data = referenced.config_maps.get(part.config_map.name)
        what = f'configmap "{part.config_map.name}"'
        return _keyed(data, part.config_map, what)
    if part.secret is not None:
        name = part.secret.source_name
        return _keyed(referenced.secrets.get(name), part.secret, f'secret "{name}"')
    if part.downward_api is not None:
        return _downward(pod, part.downward_api, context)
    return {}


def _keyed(
    data: Data | None, source: ConfigMapVolume | SecretVolume, what: str
) -> dict[str, FileContent]:
    if data is None:
        if source.optional:
            return {}
        raise ContainerConfigError(f"{what} not found")
    mode = source.default_mode
    if not source.items:
        return {key: FileContent(data[key], mode) for key in sorted(data)}
    files: dict[str, FileContent] = {}
    for item in source.items:
        if item.key in data:
            own = mode if item.mode is None else item.mode
            files[item.path] = FileContent(data[item.key], own)
        elif not source.optional:
            raise ContainerConfigError(f"{what} has no key {item.key}")
    return files


def _downward(
    pod: BoundPod, volume: DownwardVolume, context: NodeContext
) -> dict[str, FileContent]:
    files: dict[str, FileContent] = {}
    for item in volume.items:
        if item.field_ref is not None:
            text = field_value(pod, item.field_ref.field_path, context)
        elif item.resource_field_ref is not None:
            text = resource_value(pod, item.resource_field_ref, "", context)
        else:
            continue
        mode = volume.default_mode if item.mode is None else item.mode
        files[item.path] = FileContent(text, mode)
    return files
