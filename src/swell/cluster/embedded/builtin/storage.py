"""PersistentVolumes, PersistentVolumeClaims and StorageClasses.

A claim and a volume are protected by a finalizer until nothing uses them; the volume controller
removes it. A claim without a class gets the default one, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

CLASSES = "storageclasses.storage.k8s.io"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
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
    if spec.get("storageClassName") is None:
        default = default_class(context)
        if default is not None:
            spec["storageClassName"] = default["metadata"]["name"]


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
    yield from _mode_errors(spec)
    requests = spec.get("resources", {}).get("requests", {})
    if "storage" not in requests:
        yield field_errors.required("spec.resources[storage]")
    yield from fields.selector_errors(spec.get("selector"), "spec.selector")
    if old is None:
        return
    before = old.get("spec", {})
    changed = {key for key in {*spec, *before} if spec.get(key) != before.get(key)}
    allowed = {"resources", "volumeAttributesClassName"} if before.get("volumeName") else set()
    allowed |= {name for name in ("volumeName", "storageClassName") if not before.get(name)}
    if changed - allowed:
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield field_errors.forbidden("spec", detail)


# --- volumes


def default_volume(volume: Body) -> None:
    spec = volume.get("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def prepare_volume(new: Body, old: Body | None, _context: WriteContext) -> None:
    if old is None:
        new["status"] = {"phase": "Pending"}
        _protect(new, VOLUME_PROTECTION)


def volume_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    yield from _mode_errors(spec)
    capacity = spec.get("capacity", {})
    if not capacity:
        yield field_errors.required("spec.capacity")
    elif set(capacity) != {"storage"}:
        yield field_errors.not_supported("spec.capacity", sorted(capacity)[0], ["storage"])
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in RECLAIM_POLICIES:
        field = "spec.persistentVolumeReclaimPolicy"
        yield field_errors.not_supported(field, policy, RECLAIM_POLICIES)
    source = _source(spec)
    if not source:
        yield field_errors.required("spec", "must specify a volume type")
    if "local" in source and not spec.get("nodeAffinity"):
        detail = "Local volume requires node affinity"
        yield field_errors.required("spec.nodeAffinity", detail)
    if old is not None and source != _source(old.get("spec", {})):
        detail = "spec.persistentvolumesource is immutable after creation"
        yield field_errors.forbidden("spec.persistentvolumesource", detail)


def _source(spec: Body) -> Body:
    return {key: value for key, value in spec.items() if key not in _NO_SOURCE}


def _mode_errors(spec: Body) -> Iterator[FieldError]:
    modes: Any = spec.get("accessModes") or []
    if not modes:
        yield field_errors.required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield field_errors.not_supported("spec.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield field_errors.forbidden("spec.accessModes", detail)


def _protect(new: Body, finalizer: str) -> None:
    finalizers = new["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


# --- classes


def default_storage_class(storage_class: Body) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def class_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    if not new.get("provisioner"):
        yield field_errors.required("provisioner")
    mode, policy = new.get("volumeBindingMode"), new.get("reclaimPolicy")
    if mode not in BINDING_MODES:
        yield field_errors.not_supported("volumeBindingMode", mode, BINDING_MODES)
    if policy not in RECLAIM_POLICIES:
        yield field_errors.not_supported("reclaimPolicy", policy, RECLAIM_POLICIES)
    if old is None:
        return
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if new.get(name) != old.get(name):
            yield field_errors.forbidden(name, f"updates to {name} are forbidden.")


CLAIMS = Behaviour(default=default_claim, prepare=prepare_claim, errors=claim_errors)
VOLUMES = Behaviour(default=default_volume, prepare=prepare_volume, errors=volume_errors)
STORAGE_CLASSES = Behaviour(
    default=default_storage_class, errors=class_errors, grows=lambda _new, _old: False
)
