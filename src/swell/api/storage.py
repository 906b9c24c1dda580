"""Volumes, claims and classes, as far as they decide whether a pod can start."""

from __future__ import annotations

from swell.api.meta import ApiStruct, ObjectMeta


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """The class and, once bound, the volume of a claim."""

    storage_class_name: str | None = None
    volume_name: str = ""


class PersistentVolumeClaimStatus(ApiStruct, frozen=True):
    """Whether a claim is bound."""

    phase: str = "Pending"


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """A claim that a pod mounts."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"


class StorageClass(ApiStruct, frozen=True):
    """Says how volumes of a class are made, and whether that waits for the pod's node."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
