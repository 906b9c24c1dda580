"""Storage objects for tests, as bodies of the API: claims, volumes, classes and their kin."""

from __future__ import annotations

from typing import Any

from swell.api.storage import BIND_COMPLETED

Body = dict[str, Any]
HOST = "kubernetes.io/hostname"
LOCAL = "local"  # a class of volumes made by hand
MADE = "made"  # a class whose volumes are provisioned
PROVISIONER = "disks.example.com"


def a_class(name: str = LOCAL, mode: str = "WaitForFirstConsumer", **fields: object) -> Body:
    provisioner = "kubernetes.io/no-provisioner" if name == LOCAL else PROVISIONER
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


def a_claim(
    name: str,
    class_name: str | None = LOCAL,
    size: str = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    *,
    notes: Body | None = None,
    namespace: str = "ns",
    phase: str = "Pending",
    **spec: object,
) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": notes or {},
        },
        "spec": {
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
            **spec,
        },
        "status": {"phase": phase},
    }


def a_bound_claim(name: str, volume: str, class_name: str = LOCAL, **fields: Any) -> Body:
    notes = {BIND_COMPLETED: "yes"}
    return a_claim(name, class_name, notes=notes, volumeName=volume, phase="Bound", **fields)


def a_volume(
    name: str,
    node: str = "",
    class_name: str = LOCAL,
    size: str = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    *,
    claim: str = "",
    labels: Body | None = None,
    phase: str = "Available",
    **spec: object,
) -> Body:
    if node:
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if claim:
        spec["claimRef"] = {"namespace": "ns", "name": claim, "uid": f"uid-{claim}"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": class_name,
            **spec,
        },
        "status": {"phase": "Bound" if claim else phase},
    }


def mounts(*claims: str) -> list[Body]:
    """The volumes of a pod that mounts these claims."""
    return [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": claim}}
        for at, claim in enumerate(claims)
    ]
