"""Decides about volume claims and volumes: binding, phases, protection, and folders as volumes.

A claim whose class waits for its first consumer is left alone until a scheduler has reserved a
volume for it, or selected a node. Classes of the provisioner `PROVISIONER` get a folder of that
node as their volume; the node makes the folder when a pod mounts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from swell.api import quantity
from swell.api.codec import to_body
from swell.api.core import Node, ObjectReference
from swell.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from swell.api.matching import is_empty_selector, selector_matches
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.quantity import QuantityText
from swell.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from swell.cluster.embedded.builtin.storage import CLAIM_PROTECTION, VOLUME_PROTECTION
from swell.cluster.embedded.controllers.pods import is_finished
from swell.runtime.plan import Action, CreateObject, DeleteObject, PatchStatus, Plan, patch_object

PROVISIONER: Final = "elasticdeeplearning.ai/host-path"
_HOST: Final = "kubernetes.io/hostname"
_FILESYSTEM: Final = "Filesystem"
_AVAILABLE, _BOUND, _RELEASED, _LOST = "Available", "Bound", "Released", "Lost"


@dataclass(frozen=True, slots=True)
class ClaimSnapshot:
    """A claim with all that it may be bound to."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass | None
    volume: PersistentVolume | None  # that it names
    reserved: tuple[PersistentVolume, ...]  # those that name it
    open_volumes: tuple[PersistentVolume, ...]  # of its class, for a claim that does not wait
    node: Node | None  # that a scheduler has selected
    is_used: bool  # by a pod that `keeps_claims`
    folders: str  # where the folders of provisioned volumes are; empty for none


@dataclass(frozen=True, slots=True)
class VolumeSnapshot:
    """A volume, and the claim that it names if that exists."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim | None


# --- claims


def keeps_claims(pod: Pod) -> bool:
    """Whether the claims of a pod stay although they are deleted.

    Those of a pod without a node go: it cannot start with a claim that is being deleted.
    """
    return bool(pod.spec.node_name) and not is_finished(pod)


def decide_claim(snapshot: ClaimSnapshot, now: float) -> Plan:
    """Plan the next step of a claim; its own write brings the claim back here."""
    del now
    claim = snapshot.claim
    if claim.metadata.deletion_timestamp is not None:
        return Plan(tuple(_unprotected(snapshot)))
    if claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
        return Plan(tuple(_bound_status(snapshot)))
    reserved = sorted(
        (volume for volume in snapshot.reserved if _names(volume, claim)),
        key=lambda volume: volume.metadata.name,
    )
    if reserved:
        return Plan(tuple(_bound_to(claim, reserved[0])))
    if claim.spec.volume_name:
        volume = snapshot.volume
        is_open = volume is not None and volume.spec.claim_ref is None
        return Plan((_reserve(volume, claim),) if volume is not None and is_open else ())
    storage_class = snapshot.storage_class
    node = claim.metadata.annotations.get(SELECTED_NODE, "")
    is_delayed = (
        storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    )
    if is_delayed and not node:
        return Plan()
    if not is_delayed and (found := _smallest(snapshot)) is not None:
        return Plan((_reserve(found, claim),))
    if storage_class is None or storage_class.provisioner in {"", NO_PROVISIONER}:
        return Plan()
    return Plan(tuple(_provision(snapshot, storage_class, node)))


def _unprotected(snapshot: ClaimSnapshot) -> Iterator[Action]:
    meta = snapshot.claim.metadata
    if CLAIM_PROTECTION in meta.finalizers and not snapshot.is_used:
        left = [one for one in meta.finalizers if one != CLAIM_PROTECTION]
        body: Body = {"metadata": {"finalizers": left}}
        version = meta.resource_version
        yield patch_object(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.uid, body, version=version)


def _bound_status(snapshot: ClaimSnapshot) -> Iterator[Action]:
    claim, volume = snapshot.claim, snapshot.volume
    meta, phase = claim.metadata, claim.status.phase
    if volume is None or not _names(volume, claim):
        if phase != _LOST:
            yield _claim_status(claim, {"phase": _LOST})
    elif phase != _BOUND:
        status: Body = {
            "phase": _BOUND,
            "accessModes": list(volume.spec.access_modes),
            "capacity": dict(volume.spec.capacity),
        }
        yield PatchStatus(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.resource_version, status)


def _claim_status(claim: PersistentVolumeClaim, status: Body) -> PatchStatus:
    meta = claim.metadata
    return PatchStatus(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.resource_version, status)


def _bound_to(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Iterator[Action]:
    """Yields the writes that bind a claim to the volume that is reserved for it."""
    reference = volume.spec.claim_ref
    if reference is not None and not reference.uid:
        yield _reserve(volume, claim)
    meta = claim.metadata
    notes = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    body: Body = {
        "metadata": {"annotations": notes},
        "spec": {"volumeName": volume.metadata.name},
    }
    version = meta.resource_version
    yield patch_object(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.uid, body, version=version)


def _reserve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Action:
    meta = volume.metadata
    body: Body = {"spec": {"claimRef": to_body(_reference(claim))}}
    if volume.spec.claim_ref is None:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    version = meta.resource_version
    return patch_object(PERSISTENT_VOLUMES, meta.key, meta.uid, body, version=version)


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference(
        api_version="v1",
        kind=PERSISTENT_VOLUME_CLAIMS.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _smallest(snapshot: ClaimSnapshot) -> PersistentVolume | None:
    """Returns the smallest volume that a claim can have which does not wait for a pod."""
    claim = snapshot.claim
    wanted = _bytes(claim.spec.resources.requests.get("storage"))
    found = [
        volume
        for volume in snapshot.open_volumes
        if volume.spec.claim_ref is None
        and volume.status.phase == _AVAILABLE
        and volume.metadata.deletion_timestamp is None
        and (volume.spec.volume_mode or _FILESYSTEM) == (claim.spec.volume_mode or _FILESYSTEM)
        and _bytes(volume.spec.capacity.get("storage")) >= wanted
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (
            is_empty_selector(claim.spec.selector)
            or selector_matches(claim.spec.selector, volume.metadata.labels)
        )
    ]
    return min(
        found,
        key=lambda v: (_bytes(v.spec.capacity.get("storage")), v.metadata.name),
        default=None,
    )


def _bytes(raw: QuantityText | None) -> int:
    return 0 if raw is None else quantity.units(raw)


# --- provisioning


def _provision(snapshot: ClaimSnapshot, storage_class: StorageClass, node: str) -> Iterator[Action]:
    """Yields the note for the provisioner of the class, and our own volume where that is us."""
    claim = snapshot.claim
    meta, provisioner = claim.metadata, storage_class.provisioner
    version = meta.resource_version
    if meta.annotations.get(STORAGE_PROVISIONER) != provisioner:
        body: Body = {"metadata": {"annotations": {STORAGE_PROVISIONER: provisioner}}}
        yield patch_object(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.uid, body, version=version)
        return
    if provisioner != PROVISIONER or not snapshot.folders:
        return
    if node and snapshot.node is None:
        # The node has gone: another has to be chosen, as external provisioners do it.
        body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        yield patch_object(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.uid, body, version=version)
        return
    yield CreateObject(PERSISTENT_VOLUMES, _folder_volume(snapshot, storage_class))


def _folder_volume(snapshot: ClaimSnapshot, storage_class: StorageClass) -> Body:
    claim, node = snapshot.claim, snapshot.node
    # The name follows from the claim, so a second try makes no second volume.
    name = f"pvc-{claim.metadata.uid}"
    spec: Body = {
        "accessModes": list(claim.spec.access_modes),
        "capacity": dict(claim.spec.resources.requests),
        "claimRef": to_body(_reference(claim)),
        "hostPath": {"path": f"{snapshot.folders}/{name}", "type": "DirectoryOrCreate"},
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": storage_class.metadata.name,
        "volumeMode": claim.spec.volume_mode or _FILESYSTEM,
    }
    if node is not None:
        host = node.metadata.labels.get(_HOST, node.metadata.name)
        term = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": [host]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    }


# --- volumes


def decide_volume(snapshot: VolumeSnapshot, now: float) -> Plan:
    """Plan the phase of a volume, and its end once its claim is gone."""
    del now
    volume, claim = snapshot.volume, snapshot.claim
    meta, phase = volume.metadata, _phase_of(volume, claim)
    version = meta.resource_version
    if meta.deletion_timestamp is not None:
        if VOLUME_PROTECTION not in meta.finalizers or phase == _BOUND:
            return Plan()
        left = [one for one in meta.finalizers if one != VOLUME_PROTECTION]
        body: Body = {"metadata": {"finalizers": left}}
        return Plan((patch_object(PERSISTENT_VOLUMES, meta.key, meta.uid, body, version=version),))
    if claim is not None and _is_reserved_in_vain(volume, claim):
        # A scheduler may have reserved it, and ended, and the next one has taken another.
        body = {
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
            "spec": {"claimRef": None},
        }
        return Plan((patch_object(PERSISTENT_VOLUMES, meta.key, meta.uid, body, version=version),))
    if phase != volume.status.phase:
        return Plan((PatchStatus(PERSISTENT_VOLUMES, meta.key, version, {"phase": phase}),))
    is_ours = meta.annotations.get(PROVISIONED_BY) == PROVISIONER
    if phase == _RELEASED and is_ours and volume.spec.persistent_volume_reclaim_policy == "Delete":
        return Plan((DeleteObject(PERSISTENT_VOLUMES, meta.key, meta.uid),))
    return Plan()


def _is_reserved_in_vain(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved, not by hand, for a claim that is bound to another one."""
    return (
        BOUND_BY_CONTROLLER in volume.metadata.annotations
        and PROVISIONED_BY not in volume.metadata.annotations
        and _names(volume, claim)
        and BIND_COMPLETED in claim.metadata.annotations
        and claim.spec.volume_name not in {"", volume.metadata.name}
    )


def _phase_of(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> str:
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return _AVAILABLE
    if claim is None or claim.metadata.uid != reference.uid:
        return _RELEASED
    is_bound = claim.spec.volume_name == volume.metadata.name
    return _BOUND if is_bound else volume.status.phase.replace("Pending", _AVAILABLE)


def _names(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for this claim; a reservation may leave the UID out."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == claim.metadata.key
        and reference.uid in {"", claim.metadata.uid}
    )
