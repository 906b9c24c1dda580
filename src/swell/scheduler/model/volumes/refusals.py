"""The sentences that say why a node refuses a pod because of its volumes. Pure texts.

They follow the words "refused because" in messages, so each is a sentence of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swell.api.storage import PersistentVolume, PersistentVolumeClaim
from swell.scheduler.model.volumes.claims import ClaimUse, class_name
from swell.scheduler.model.volumes.node_masks import ZONE_LABELS, host_of

# A message names so many claims; the others are counted.
_NAMED_MAX: Final = 4


def missing(use: ClaimUse, *, is_foreign: bool, are_served: bool) -> str:
    if not are_served:
        return f"claim {use.key} cannot be looked up: the server shows no PersistentVolumeClaims"
    if is_foreign:
        return f"claim {use.key} was not made for this pod but is needed for its ephemeral volume"
    if use.is_ephemeral:
        return f"claim {use.key} for its ephemeral volume has not been created yet"
    return f"claim {use.key} does not exist"


def unusable(claim: PersistentVolumeClaim) -> str:
    if claim.metadata.deletion_timestamp is not None:
        return f"claim {claim.metadata.key} is being deleted"
    return f"claim {claim.metadata.key} has lost its volume {claim.spec.volume_name}"


def immediate(keys: Sequence[str]) -> str:
    # The first words are those of kube-scheduler, which users search for.
    return f"pod has unbound immediate PersistentVolumeClaims: {_listed(keys)}"


def volume_gone(claim: PersistentVolumeClaim) -> str:
    return f"volume {claim.spec.volume_name} of claim {claim.metadata.key} is gone"


def bound_elsewhere(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    host = host_of(volume)
    where = f"on {host}" if host else f"({volume.metadata.name}) that is not reached from there"
    return f"claim {claim.metadata.key} is bound to a volume {where}"


def reserved_elsewhere(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    host = host_of(volume)
    where = f" on {host}" if host else ""
    return f"volume {volume.metadata.name}{where} is reserved for claim {claim.metadata.key}"


def other_zone(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    labels = volume.metadata.labels
    zones = ", ".join(f"{key}={labels[key]}" for key in ZONE_LABELS if key in labels)
    return f"volume {volume.metadata.name} of claim {claim.metadata.key} is in {zones}"


def in_use(key: str, pod: str, *, is_same_gang: bool) -> str:
    text = f"claim {key} is ReadWriteOncePod and used by pod {pod}"
    return f"{text} of the same gang: they can never run together" if is_same_gang else text


def limit(driver: str) -> str:
    return f"no more volumes of {driver} can be attached"


def shared(key: str, node: str) -> str:
    return f"claim {key} has the volume of another pod of its gang on {node}"


def pinned(key: str, node: str, *, is_known: bool) -> str:
    gone = "" if is_known else ", which is gone"
    return f"claim {key} is being provisioned for {node}{gone}"


def not_allowed(key: str) -> str:
    return f"claim {key} cannot be provisioned there"


def exhausted(keys: Sequence[str]) -> str:
    return f"too little storage is left to provision {_listed(keys)}"


def no_volume(texts: Sequence[str]) -> str:
    return "; ".join(text for text in texts if text)


def no_volume_for(
    claim: PersistentVolumeClaim, are_taken: Sequence[bool], n_candidates: int
) -> str:
    """Says what became of the volumes of the claim's class."""
    size = claim.spec.resources.requests.get("storage", "0")
    n, n_taken = len(are_taken), sum(are_taken)
    n_unfit = max(n - n_taken - n_candidates, 0)
    return (
        f"claim {claim.metadata.key} ({size}, class {class_name(claim)!r}) has no volume there: "
        f"of {n} of the class {n_taken} are taken, {n_unfit} do not fit, "
        f"{n_candidates} are on other nodes, and none can be provisioned there"
    )


def _listed(keys: Sequence[str]) -> str:
    named = ", ".join(keys[:_NAMED_MAX])
    more = len(keys) - _NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named
