"""PersistentVolumes, PersistentVolumeClaims and StorageClasses.

A claim and a volume are protected by a finalizer until nothing uses them; the volume controller
removes it. A claim without a class gets the default one, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator

from swell.api import quantity
from swell.api.meta import Body
from swell.api.times import format_time
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.builtin.scheduling import node_selector_errors
from swell.cluster.embedded.builtin.volumes import SOURCE_CHECKS
from swell.cluster.embedded.builtin.warnings import claim_warnings
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

CLASSES = "storageclasses.storage.k8s.io"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
CLASS_POLICIES = ("Delete", "Retain")  # of volumes that are made for claims
# What a claim's volume may be filled from, by group and kind.
_SOURCES = frozenset({("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")})
# kube-apiserver checks sources in this order: the first one counts, others are refused.
_SOURCE_ORDER = {
    name: at
    for at, name in enumerate(
        ("hostPath", "glusterfs", "nfs", "rbd", "iscsi", "fc", "local", "csi")
    )
}
_PARAMETERS_MAX = 512
_PARAMETER_BYTES_MAX = 256 << 10
# The fields of a volume that are not its source, which may never change.
_NO_SOURCE = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


# --- claims


def default_claim(claim: Body) -> None:
    claim.get("spec", {}).setdefault("volumeMode", "Filesystem")
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def prepare_claim(new: Body, old: Body | None, context: WriteContext) -> None:
    """Give a new claim its protection, its phase, and the default class if it names none."""
    if old is not None:
        return
    new["status"] = {"phase": "Pending"}
    _protect(new, CLAIM_PROTECTION)
    spec = new.setdefault("spec", {})
    _settle_sources(spec)
    if spec.get("storageClassName") is None:
        default = default_class(context)
        if default is not None:
            spec["storageClassName"] = default["metadata"]["name"]


def _settle_sources(spec: Body) -> None:
    """Drop a source of a kind that cannot be one, and name the source by both its fields."""
    source = spec.get("dataSource")
    if source is not None and (source.get("apiGroup") or "", source.get("kind")) not in _SOURCES:
        del spec["dataSource"]
    source, general = spec.get("dataSource"), spec.get("dataSourceRef")
    for given in filter(None, (source, general)):
        given.setdefault("apiGroup", None)  # as a real server shows it
    if source is not None and general is None:
        spec["dataSourceRef"] = dict(source)
    elif source is None and general is not None and not general.get("namespace"):
        spec["dataSource"] = {k: v for k, v in general.items() if k != "namespace"}


def default_class(context: WriteContext) -> Body | None:
    """The default class; of several the youngest, then the first by name, as in kube-apiserver."""
    found = [
        one
        for one in context.each(CLASSES)
        if one["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
    ]
    found.sort(key=lambda one: one["metadata"]["name"])
    newest = max((one["metadata"].get("creationTimestamp", "") for one in found), default="")
    return next((o for o in found if o["metadata"].get("creationTimestamp", "") == newest), None)


def claim_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    yield from fields.access_mode_errors(spec.get("accessModes"), "spec.accessModes")
    yield from fields.requested_size_errors(spec, "spec")
    yield from fields.selector_errors(spec.get("selector"), "spec.selector")
    for name in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(name):
            yield from fields.name_errors(spec[name], f"spec.{name}")
    for name in ("dataSource", "dataSourceRef"):
        if name in spec and not spec[name].get("name"):
            yield field_errors.required(f"spec.{name}.name")
    if old is not None:
        yield from _claim_change_errors(spec, old)


def _claim_change_errors(spec: Body, old: Body) -> Iterator[FieldError]:
    before, status = old.get("spec", {}), old.get("status", {})
    changed = {key for key in {*spec, *before} if spec.get(key) != before.get(key)}
    is_bound = status.get("phase") == "Bound"
    allowed = {"resources", "volumeAttributesClassName"} if is_bound else set()
    allowed |= {name for name in ("volumeName", "storageClassName") if not before.get(name)}
    if changed - allowed:
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield field_errors.forbidden("spec", detail)
    yield from fields.immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    asked, asked_before = _nano(spec.get("resources", {})), _nano(before.get("resources", {}))
    # Less than before is allowed, to recover from a growth that failed, but not what there is.
    held = quantity.parse(status.get("capacity", {}).get("storage", "0")).nano
    if asked < asked_before and asked <= held:
        field = "spec.resources.requests.storage"
        yield field_errors.forbidden(field, "field can not be less than status.capacity")


def _nano(resources: Body) -> int:
    return quantity.parse(resources.get("requests", {}).get("storage", "0")).nano


def claim_status_errors(
    new: Body, _old: Body | None, _context: WriteContext
) -> Iterator[FieldError]:
    capacity = new.get("status", {}).get("capacity", {})
    yield from fields.negative_errors(capacity, "status.capacity")


# --- volumes


def default_volume(volume: Body) -> None:
    spec = volume.get("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def prepare_volume(new: Body, old: Body | None, context: WriteContext) -> None:
    if old is None:
        since = format_time(context.now)
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": since}
        _protect(new, VOLUME_PROTECTION)


def prepare_volume_status(new: Body, old: Body | None, context: WriteContext) -> None:
    """Note when the phase changed, unless the writer says so itself."""
    status, before = new.get("status", {}), (old or {}).get("status", {})
    field = "lastPhaseTransitionTime"
    if status.get("phase") == before.get("phase"):
        if field not in status and field in before:
            status[field] = before[field]
    elif status.get(field) == before.get(field):
        status[field] = format_time(context.now)


def volume_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    yield from fields.access_mode_errors(spec.get("accessModes"), "spec.accessModes")
    capacity = spec.get("capacity", {})
    if not capacity:
        yield field_errors.required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield field_errors.not_supported("spec.capacity", sorted(capacity), ["storage"])
    yield from fields.size_errors(capacity, "spec.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in RECLAIM_POLICIES:
        field = "spec.persistentVolumeReclaimPolicy"
        yield field_errors.not_supported(field, policy, RECLAIM_POLICIES)
    for name in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(name):
            yield from fields.name_errors(spec[name], f"spec.{name}")
    if spec.get("volumeAttributesClassName") and "csi" not in spec:
        yield field_errors.required("spec.csi", "has to be specified with a class of attributes")
    if "nodeAffinity" in spec:
        yield from _affinity_errors(spec["nodeAffinity"], "spec.nodeAffinity")
    yield from _source_errors(spec)
    if old is not None:
        yield from _volume_change_errors(spec, old.get("spec", {}))


def volume_warnings(new: Body, _old: Body | None) -> Iterator[str]:
    if new.get("spec", {}).get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
            "Instead, the recommended approach is to use dynamic provisioning."
        )


def _affinity_errors(affinity: Body, path: str) -> Iterator[FieldError]:
    if "required" not in affinity:
        detail = "must specify required node constraints"
        yield field_errors.required(f"{path}.required", detail)
    else:
        yield from node_selector_errors(affinity["required"], f"{path}.required")


def _source_errors(spec: Body) -> Iterator[FieldError]:
    """The source of a volume: one, in the order in which kube-apiserver looks at them."""
    source = _source(spec)
    if not source:
        yield field_errors.required("spec", "must specify a volume type")
        return
    first, *others = sorted(
        source, key=lambda name: (_SOURCE_ORDER.get(name, len(_SOURCE_ORDER)), name)
    )
    for name in others:
        yield field_errors.forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    if first == "local":
        yield from _local_errors(source["local"], "spec.local")
        if "nodeAffinity" not in spec:
            detail = "Local volume requires node affinity"
            yield field_errors.required("spec.nodeAffinity", detail)
    elif first == "csi":
        yield from _csi_errors(source["csi"], "spec.csi")
    elif first in SOURCE_CHECKS:
        yield from SOURCE_CHECKS[first](source[first], f"spec.{first}")
    path = source.get("hostPath", {}).get("path")
    if path == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield field_errors.forbidden("spec.persistentVolumeReclaimPolicy", detail)


def _local_errors(local: Body, path: str) -> Iterator[FieldError]:
    if not local.get("path"):
        yield field_errors.required(f"{path}.path")
    else:
        yield from fields.no_backstep_errors(local["path"], f"{path}.path")


def _csi_errors(csi: Body, path: str) -> Iterator[FieldError]:
    if csi.get("driver"):
        yield from fields.name_errors(csi["driver"].lower(), f"{path}.driver")


def _volume_change_errors(spec: Body, before: Body) -> Iterator[FieldError]:
    if _source(spec) != _source(before):
        detail = "spec.persistentvolumesource is immutable after creation"
        yield field_errors.forbidden("spec.persistentvolumesource", detail)
    yield from fields.immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    if before.get("nodeAffinity"):
        affinity = spec.get("nodeAffinity")
        yield from fields.immutable(affinity, before["nodeAffinity"], "nodeAffinity")


def _source(spec: Body) -> Body:
    return {key: value for key, value in spec.items() if key not in _NO_SOURCE}


def _protect(new: Body, finalizer: str) -> None:
    finalizers = new["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


# --- classes


def default_storage_class(storage_class: Body) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def class_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    provisioner = new.get("provisioner")
    if not provisioner:
        yield field_errors.required("provisioner")
    else:
        yield from fields.qualified_name_errors(provisioner.lower(), "provisioner")
    mode, policy = new.get("volumeBindingMode"), new.get("reclaimPolicy")
    if mode not in BINDING_MODES:
        yield field_errors.not_supported("volumeBindingMode", mode, BINDING_MODES)
    if policy and policy not in CLASS_POLICIES:
        yield field_errors.not_supported("reclaimPolicy", policy, CLASS_POLICIES)
    yield from _parameter_errors(new.get("parameters") or {})
    yield from _topology_errors(new.get("allowedTopologies") or [])
    if old is not None:
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            yield from fields.immutable(new.get(name), old.get(name), name)


def _parameter_errors(parameters: Body) -> Iterator[FieldError]:
    if len(parameters) > _PARAMETERS_MAX:
        yield field_errors.too_long("parameters", _PARAMETERS_MAX)
        return
    if "" in parameters:
        yield field_errors.invalid("parameters", "", "field can not be empty.")
    size = sum(len(key) + len(value) for key, value in parameters.items())
    if size > _PARAMETER_BYTES_MAX:
        yield field_errors.too_long("parameters", _PARAMETER_BYTES_MAX)


def _topology_errors(terms: list[Body]) -> Iterator[FieldError]:
    """Terms by labels; none may be empty, or say the same as another."""
    seen: list[dict[str, set[str]]] = [{}]
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        found: dict[str, set[str]] = {}
        for at, requirement in enumerate(term.get("matchLabelExpressions", ())):
            where, key = f"{path}[{at}]", requirement.get("key", "")
            yield from fields.qualified_name_errors(key, f"{where}.key")
            if key in found:
                yield field_errors.duplicate(f"{where}.key", key)
            values = requirement.get("values", ())
            if not values:
                yield field_errors.required(f"{where}.values")
            for number, value in enumerate(values):
                if value in values[:number]:
                    yield field_errors.duplicate(f"{where}.values[{number}]", value)
            found[key] = set(values)
        if found in seen:
            yield field_errors.duplicate(path, "")
        seen.append(found)


CLAIMS = Behaviour(
    default=default_claim,
    prepare=prepare_claim,
    errors=claim_errors,
    status_errors=claim_status_errors,
    warnings=claim_warnings,
)
VOLUMES = Behaviour(
    default=default_volume,
    prepare=prepare_volume,
    errors=volume_errors,
    prepare_status=prepare_volume_status,
    warnings=volume_warnings,
)
STORAGE_CLASSES = Behaviour(
    default=default_storage_class, errors=class_errors, grows=lambda _new, _old: False
)
