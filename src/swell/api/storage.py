"""Volumes, as far as they decide whether a pod can start: claims and the classes behind them."""

from __future__ import annotations

from swell.api.meta import ApiStruct, ObjectMeta


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    storage_class_name: str | None = None
    volume_name: str = ""


class PersistentVolumeClaimStatus(ApiStruct, frozen=True):
    phase: str = "Pending"


class PersistentVolumeClaim(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"


class StorageClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"


class PersistentVolumeSpec(ApiStruct, frozen=True):
    storage_class_name: str = ""


class PersistentVolumeStatus(ApiStruct, frozen=True):
    phase: str = "Pending"


class PersistentVolume(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()
    api_version: str = "v1"
    kind: str = "PersistentVolume"


class CSINode(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
