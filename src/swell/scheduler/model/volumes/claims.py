"""The claims of a pod, and what state a claim is in. Pure functions of objects.

A claim counts as bound when it names its volume and the volume controller has said so; its phase
is not asked, since it may be older. The default class is never guessed: admission or the volume
controller writes it into the claim, and until then the claim has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from swell.api import quantity
from swell.api.pod import Pod
from swell.api.quantity import QuantityError, QuantityText
from swell.api.storage import (
    BIND_COMPLETED,
    LEGACY_CLASS,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
# With one of these modes pods on several nodes may use one claim.
_SHARED_MODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_LOST: Final = "Lost"
_STORAGE: Final = "storage"
_FILESYSTEM: Final = "Filesystem"


class ClaimState(Enum):
    """The state of a claim, by which it is known how it can get a volume."""

    BOUND = "bound"
    DELAYED = "delayed"  # it gets its volume when a scheduler has chosen a node
    IMMEDIATE = "immediate"  # only the volume controller can bind it
    UNUSABLE = "unusable"  # lost, or being deleted


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a pod uses. An ephemeral one is made for the pod and belongs to it."""

    key: str
    is_ephemeral: bool


def claims_of(pod: Pod) -> tuple[ClaimUse, ...]:
    """Returns the claims of a pod in the order of its volumes, each once."""
    meta = pod.metadata
    found: dict[str, ClaimUse] = {}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            key = f"{meta.namespace}/{volume.persistent_volume_claim.claim_name}"
            found.setdefault(key, ClaimUse(key, False))
        elif volume.ephemeral is not None:
            key = f"{meta.namespace}/{meta.name}-{volume.name}"
            found.setdefault(key, ClaimUse(key, True))
    return tuple(found.values())


def belongs_to(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the claim was made for this pod, by UID."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def class_name(one: PersistentVolumeClaim | PersistentVolume) -> str:
    """Returns the class of a claim or volume: that of the old annotation comes first."""
    legacy = one.metadata.annotations.get(LEGACY_CLASS)
    return legacy if legacy is not None else one.spec.storage_class_name or ""


def state_of(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> ClaimState:
    if claim.status.phase == _LOST or claim.metadata.deletion_timestamp is not None:
        return ClaimState.UNUSABLE
    if is_bound(claim):
        return ClaimState.BOUND
    is_delayed = (
        storage_class is not None
        and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        and not claim.spec.volume_name
    )
    return ClaimState.DELAYED if is_delayed else ClaimState.IMMEDIATE


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def selected_node(claim: PersistentVolumeClaim) -> str:
    """Returns the node that a scheduler has chosen for the claim's volume, or an empty name."""
    return claim.metadata.annotations.get(SELECTED_NODE, "")


def is_shareable(claim: PersistentVolumeClaim) -> bool:
    """Whether pods on several nodes may use the claim."""
    return not _SHARED_MODES.isdisjoint(claim.spec.access_modes)


def is_exclusive(claim: PersistentVolumeClaim) -> bool:
    """Whether one pod at a time may use the claim."""
    return READ_WRITE_ONCE_POD in claim.spec.access_modes


def has_provisioner(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in {"", NO_PROVISIONER}


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    return amount_bytes(claim.spec.resources.requests.get(_STORAGE))


def capacity_bytes(volume: PersistentVolume) -> int:
    return amount_bytes(volume.spec.capacity.get(_STORAGE))


def amount_bytes(raw: QuantityText | None) -> int:
    """Returns an amount in bytes; 0 for none, and for one that is no quantity."""
    if raw is None:
        return 0
    try:
        return quantity.units(raw)
    except QuantityError:
        return 0


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for this claim; a reservation may leave the UID out."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and (ref.namespace, ref.name) == claim.metadata.key
        and ref.uid in {"", claim.metadata.uid}
    )


def offers_modes_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume can be accessed in every way that the claim asks for."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def has_kind_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is large enough and of the claim's kind, whoever has it."""
    spec, asked = volume.spec, claim.spec
    return (
        (spec.claim_ref is None or is_for(volume, claim))
        and capacity_bytes(volume) >= requested_bytes(claim)
        and (spec.volume_mode or _FILESYSTEM) == (asked.volume_mode or _FILESYSTEM)
        and (spec.volume_attributes_class_name or "") == (asked.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )
