"""The sentences that say why nodes refuse a pod because of its resource claims. Pure texts.

They follow the words "refused because" in messages, so each is a sentence of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swell.api.devices import RESERVED_MAX
from swell.api.pod import NodeSelector
from swell.scheduler.model.devices.claims import DeviceClaimUse
from swell.scheduler.model.devices.extended import EXTENDED

# A message names so many; the others are counted.
_NAMED_MAX: Final = 3

SWITCHED_OFF: Final = (
    "the pod has resource claims, which predicate.DynamicResourceAllocationEnable switches off"
)
NOT_SERVED: Final = "the pod has resource claims, and the server has no resource.k8s.io/v1"


def not_made(use: DeviceClaimUse) -> str:
    if use.name == EXTENDED:
        return "the claim for its extended resources has not been created yet"
    return f"claim {use.name!r} of its template has not been created yet"


def missing(use: DeviceClaimUse, *, is_foreign: bool) -> str:
    if is_foreign:
        return f"claim {use.key} was not made for this pod"
    return f"claim {use.key} does not exist"


def deleting(key: str) -> str:
    return f"claim {key} is being deleted"


def too_many_users(key: str, n: int) -> str:
    return f"claim {key} would have {n} users, and can have {RESERVED_MAX}"


def of_claim(key: str, text: str) -> str:
    return f"claim {key}: {text}"


def elsewhere(key: str, selector: NodeSelector | None, *, is_chosen: bool) -> str:
    where = host_of(selector)
    place = f"on {where}" if where else "that are not reached from there"
    verb = "is given devices" if is_chosen else "has devices"
    return f"claim {key} {verb} {place}"


def host_of(selector: NodeSelector | None) -> str:
    """Returns the one node that a selector names, or an empty name."""
    terms = selector.node_selector_terms if selector is not None else ()
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    (field,) = terms[0].match_fields
    return field.values[0] if field.operator == "In" and len(field.values) == 1 else ""


def no_device(
    keys: Sequence[str], counts: tuple[int, int, int, int, int], notes: Sequence[str]
) -> str:
    """Says what became of the devices that the refusing nodes reach."""
    used, other, tainted, unsupported, free = counts
    total = sum(counts)
    parts = [
        f"{n} {what}"
        for n, what in (
            (used, "in use"),
            (other, "not matching"),
            (tainted, "tainted"),
            (unsupported, "unsupported"),
            (free, "free but too few or against a constraint"),
        )
        if n
    ]
    seen = f"of {total} devices there {', '.join(parts)}" if total else "there are no devices there"
    named = "; ".join(notes[:_NAMED_MAX])
    more = f"; {named}" if named else ""
    return f"{_claims(keys)} cannot be met: {seen}{more}"


def still_used(keys: Sequence[str]) -> str:
    verb = "is" if len(keys) == 1 else "are"
    return f"{_claims(keys)} {verb} to get devices that are in use until other pods have left"


def incomplete(keys: Sequence[str], notes: Sequence[str]) -> str:
    return f"{_claims(keys)} must wait: {'; '.join(notes[:_NAMED_MAX])}"


def too_long(keys: Sequence[str]) -> str:
    return f"{_claims(keys)} cannot be met: search too long"


def _claims(keys: Sequence[str]) -> str:
    named = ", ".join(keys[:_NAMED_MAX])
    more = len(keys) - _NAMED_MAX
    word = "claim" if len(keys) == 1 else "claims"
    return f"{word} {named} and {more} more" if more > 0 else f"{word} {named}"
