"""The choice of volumes for the claims of one pod on one node: existing ones, or new ones.

The greedy choice is that of kube-scheduler: claims from the smallest on, each takes the smallest
volume that is left. Where that leaves a claim without, a full matching is searched for, so that no
pod is refused that could have its volumes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from swell.api.matching import is_empty_selector, selector_matches
from swell.api.storage import PersistentVolume, PersistentVolumeClaim
from swell.scheduler.model.volumes.claims import (
    capacity_bytes,
    has_kind_for,
    is_for,
    offers_modes_for,
)

_AVAILABLE = "Available"


@dataclass(frozen=True, slots=True)
class Candidates:
    """The existing volumes that a claim may have, the first choice first.

    With `is_final` the one volume is reserved for the claim, and there is no other choice.
    """

    names: tuple[str, ...] = ()
    is_final: bool = False


def candidates_for(
    claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume], taken: Mapping[str, str]
) -> Candidates:
    """Returns the volumes of its class that a claim may have, whatever the node.

    `taken` are those that other claims were given and do not have yet.
    """
    key = str(claim.metadata.key)
    of_kind = [volume for volume in volumes if has_kind_for(volume, claim)]
    reserved = sorted(volume.metadata.name for volume in of_kind if is_for(volume, claim))
    if reserved:
        return Candidates((reserved[0],), is_final=True)
    open_ones = [
        volume
        for volume in of_kind
        if volume.status.phase == _AVAILABLE
        and taken.get(volume.metadata.name, key) == key
        and _is_selected(claim, volume)
        and offers_modes_for(volume, claim)
    ]
    open_ones.sort(key=lambda volume: (capacity_bytes(volume), volume.metadata.name))
    return Candidates(tuple(volume.metadata.name for volume in open_ones))


def _is_selected(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    selector = claim.spec.selector
    return is_empty_selector(selector) or selector_matches(selector, volume.metadata.labels)


def choose(
    wanted: Sequence[tuple[str, Sequence[str]]], provisionable: Collection[str]
) -> dict[str, str | None] | None:
    """Returns a volume for each claim, None for one to be provisioned; None if there is no way.

    `wanted` has each claim with the volumes that it may have on this node, in order.
    """
    found: dict[str, str | None] = {}
    used: set[str] = set()
    for claim, names in wanted:
        name = next((name for name in names if name not in used), None)
        if name is None and claim not in provisionable:
            return _full_matching(wanted, provisionable)
        found[claim] = name
        if name is not None:
            used.add(name)
    return found


def _full_matching(
    wanted: Sequence[tuple[str, Sequence[str]]], provisionable: Collection[str]
) -> dict[str, str | None] | None:
    """Matches the claims that cannot be provisioned by augmenting paths, then the others."""
    names_of = dict(wanted)
    holder: dict[str, str] = {}

    def place(claim: str, tried: set[str]) -> bool:
        for name in names_of[claim]:
            if name in tried:
                continue
            tried.add(name)
            if name not in holder or place(holder[name], tried):
                holder[name] = claim
                return True
        return False

    for claim, _ in wanted:
        if claim not in provisionable and not place(claim, set()):
            return None
    for claim, names in wanted:
        if claim in provisionable:
            name = next((name for name in names if name not in holder), None)
            if name is not None:
                holder[name] = claim
    of_claim = {claim: name for name, claim in holder.items()}
    return {claim: of_claim.get(claim) for claim, _ in wanted}
