"""The volumes of a pod. Of the many sources, those that jobs use are checked in full."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.containers import (
    FIELD_PATHS,
    SUBSCRIPTED,
    field_ref_errors,
    resource_ref_errors,
)
from swell.cluster.embedded.builtin.images import pull_policy
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

VOLUME_FIELD_PATHS = (*FIELD_PATHS[:3], *SUBSCRIPTED)
# kube-apiserver checks sources in this order: the first one counts, others are refused.
SOURCES = (
    "emptyDir", "hostPath", "secret", "nfs", "iscsi", "persistentVolumeClaim", "downwardAPI",
    "configMap", "projected", "csi", "ephemeral", "image",
)  # fmt: skip
TOKEN_S_MIN, TOKEN_S_MAX = 600, 1 << 32
HOST_PATH_TYPES = (
    "", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice",
    "BlockDevice",
)  # fmt: skip


def default_volume(volume: Body) -> None:
    """Make a volume without a source an emptyDir, and set the pull policy of an image volume."""
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}
    if "projected" in volume:
        volume["projected"].setdefault("sources", None)  # as a real server shows it
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))


def volume_errors(
    volumes: list[Body], path: str, *, is_pod: bool = False
) -> tuple[set[str], list[FieldError]]:
    """The names of the valid volumes, which containers may mount, and the errors of the others."""
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name", "")
        found = list(_source_errors(volume, where))
        if is_pod and "image" in volume and not volume["image"].get("reference"):
            found.append(field_errors.required(f"{where}.image.reference"))
        if name:
            found += fields.name_errors(name, f"{where}.name", "label")
        if name in names:
            found.append(field_errors.duplicate(f"{where}.name", name))
        if not found:  # a mount of an invalid volume is reported as not found
            names.add(name)
        errors += found
    return names, errors


def _source_errors(volume: Body, path: str) -> Iterator[FieldError]:
    sources = [name for name in volume if name != "name"]
    sources.sort(key=lambda name: SOURCES.index(name) if name in SOURCES else len(SOURCES))
    for name in sources[1:]:
        yield field_errors.forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
    for name in sources[:1]:
        check = SOURCE_CHECKS.get(name)
        if check is not None:
            yield from check(volume[name], f"{path}.{name}")


def _host_path(source: Body, path: str) -> Iterator[FieldError]:
    yield from fields.no_backstep_errors(source.get("path", ""), f"{path}.path")
    if source.get("type", "") not in HOST_PATH_TYPES:
        yield field_errors.not_supported(f"{path}.type", source["type"], HOST_PATH_TYPES)


def _config_map(source: Body, path: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield field_errors.required(f"{path}.name")
    yield from _items(source, path)


def _secret(source: Body, path: str) -> Iterator[FieldError]:
    if not source.get("secretName"):
        yield field_errors.required(f"{path}.secretName")
    yield from _items(source, path)


def _items(source: Body, path: str) -> Iterator[FieldError]:
    yield from fields.file_mode_errors(source, "defaultMode", path)
    for index, item in enumerate(source.get("items", ())):
        where = f"{path}.items[{index}]"
        yield from _file_path(item.get("path", ""), f"{where}.path")
        yield from fields.file_mode_errors(item, "mode", where)


def _file_path(path: str, field: str) -> Iterator[FieldError]:
    yield from fields.relative_path_errors(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield field_errors.invalid(field, path, "must not start with '..'")


def _downward(source: Body, path: str) -> Iterator[FieldError]:
    yield from fields.file_mode_errors(source, "defaultMode", path)
    for item in source.get("items", ()):
        where = path  # kube-apiserver does not name the item
        if not item.get("path"):
            yield field_errors.required(f"{where}.path")
        yield from _file_path(item.get("path", ""), f"{where}.path")
        yield from fields.file_mode_errors(item, "mode", where)
        field_ref, resource_ref = item.get("fieldRef"), item.get("resourceFieldRef")
        if field_ref is not None:
            yield from field_ref_errors(field_ref, f"{where}.fieldRef", VOLUME_FIELD_PATHS)
            if resource_ref is not None:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield field_errors.invalid(where, "resource", detail)
        elif resource_ref is not None:
            if not resource_ref.get("containerName"):
                yield field_errors.required(f"{where}.resourceFieldRef.containerName")
            yield from resource_ref_errors(resource_ref, f"{where}.resourceFieldRef")
        else:
            yield field_errors.required(where, "one of fieldRef and resourceFieldRef is required")


def _projected(source: Body, path: str) -> Iterator[FieldError]:
    yield from fields.file_mode_errors(source, "defaultMode", path)
    checks = {
        "configMap": _config_map,
        "secret": _projected_secret,
        "downwardAPI": _downward,
        "serviceAccountToken": _account_token,
    }
    paths: set[str] = set()
    for index, one in enumerate(source.get("sources") or ()):
        for used in _paths_of(one):
            if used in paths:
                yield field_errors.invalid(path, used, "conflicting duplicate paths")
            paths.add(used)
        where = f"{path}.sources[{index}]"
        if len(one) > 1:
            yield field_errors.forbidden(
                where, "may not specify more than 1 volume type per source"
            )
        for name, check in checks.items():
            if name in one:
                yield from check(one[name], f"{where}.{name}")


def _paths_of(source: Body) -> list[str]:
    """The files that one source of a projected volume makes."""
    items = [item for part in source.values() for item in part.get("items", ())]
    token = source.get("serviceAccountToken", {}).get("path", "")
    return [path for path in (*(item.get("path", "") for item in items), token) if path]


def _account_token(source: Body, path: str) -> Iterator[FieldError]:
    seconds = source.get("expirationSeconds", TOKEN_S_MIN)
    if seconds < TOKEN_S_MIN:
        detail = "may not specify a duration less than 10 minutes"
        yield field_errors.invalid(f"{path}.expirationSeconds", seconds, detail)
    if seconds > TOKEN_S_MAX:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield field_errors.invalid(f"{path}.expirationSeconds", seconds, detail)
    where = path.partition(".sources[")[0] + ".path"  # kube-apiserver does not name the source
    if not source.get("path"):
        yield field_errors.required(where)
    else:
        yield from _file_path(source["path"], where)


def _projected_secret(source: Body, path: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield field_errors.required(f"{path}.name")
    yield from _items(source, path)


def _nfs(source: Body, path: str) -> Iterator[FieldError]:
    target = source.get("path", "")
    if not target.startswith("/"):
        yield field_errors.invalid(f"{path}.path", target, "must be an absolute path")


def _ephemeral(source: Body, path: str) -> Iterator[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield field_errors.required(f"{path}.volumeClaimTemplate")
        return
    where = f"{path}.volumeClaimTemplate.spec"
    spec = template.get("spec", {})
    yield from fields.access_mode_errors(spec.get("accessModes"), f"{where}.accessModes")
    yield from fields.requested_size_errors(spec, where)


def _azure_disk(source: Body, path: str) -> Iterator[FieldError]:
    prefix = "/subscriptions/" if source.get("kind") == "Managed" else "https://"
    target = source.get("diskURI", "")
    if target and not target.startswith(prefix):
        yield field_errors.not_supported(f"{path}.diskURI", target, [f"{prefix}..."])


def _empty_dir(source: Body, path: str) -> Iterator[FieldError]:
    limit = source.get("sizeLimit", "")
    if limit.startswith("-"):
        yield field_errors.forbidden(
            f"{path}.sizeLimit", "SizeLimit field must be a valid quantity"
        )


SOURCE_CHECKS = {
    "azureDisk": _azure_disk,
    "configMap": _config_map,
    "downwardAPI": _downward,
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "nfs": _nfs,
    "projected": _projected,
    "secret": _secret,
}
