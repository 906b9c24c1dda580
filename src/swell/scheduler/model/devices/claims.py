"""The resource claims of a pod, and what is known of each. Pure functions of objects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from swell.api.devices import RESERVED_MAX, ResourceClaim
from swell.api.meta import Uid
from swell.api.pod import Pod

PODS = "pods"


@dataclass(frozen=True, slots=True)
class DeviceClaimUse:
    """One entry of `spec.resourceClaims` of a pod.

    An empty `key` stands for a claim that a template has not made yet; `is_own` for one that was
    made for this pod and belongs to it. With `unsupported` the entry names its claim in a way that
    is not known here.
    """

    name: str
    key: str
    is_own: bool
    unsupported: str = ""


def device_claims_of(pod: Pod) -> tuple[DeviceClaimUse, ...]:
    """Returns the claims of a pod in its order, without those that it does not need."""
    namespace = pod.metadata.namespace
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    found: list[DeviceClaimUse] = []
    for one in pod.spec.resource_claims:
        if one.resource_claim_name:
            found.append(DeviceClaimUse(one.name, f"{namespace}/{one.resource_claim_name}", False))
        elif not one.resource_claim_template_name:
            text = f"spec.resourceClaims {one.name!r} names neither a claim nor a template"
            found.append(DeviceClaimUse(one.name, "", False, text))
        elif one.name not in made:
            found.append(DeviceClaimUse(one.name, "", True))
        elif name := made[one.name]:
            found.append(DeviceClaimUse(one.name, f"{namespace}/{name}", True))
        # Otherwise the controller manager has said that no claim is needed.
    return tuple(found)


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for this pod, by UID."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def is_allocated(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None


def is_reserved_for(claim: ResourceClaim, uid: Uid) -> bool:
    return any(one.uid == uid for one in claim.status.reserved_for)


def is_only_for(claim: ResourceClaim, uids: Collection[Uid]) -> bool:
    """Whether nobody but pods of these UIDs may use the claim."""
    return all(
        one.uid in uids and one.resource == PODS and not one.api_group
        for one in claim.status.reserved_for
    )


def has_room_for(claim: ResourceClaim, uid: Uid, n_more: int = 1) -> bool:
    """Whether so many pods can be added to those that may use the claim."""
    if is_reserved_for(claim, uid):
        return True
    return len(claim.status.reserved_for) + n_more <= RESERVED_MAX
