"""Devices, their classes and claims, behind a gate of our own.

Kubernetes serves them always. Here nothing prepares devices for containers, so no command turns
them on: they are for programs that allocate devices, and for tests of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from swell.api.meta import Body
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

DEVICES: Final = "DynamicResourceAllocation"
GROUP: Final = "resource.k8s.io"
_CLAIMS: Final = f"resourceclaims.{GROUP}"
_KINDS: Final = (_CLAIMS, *(f"{kind}.{GROUP}" for kind in (
    "deviceclasses", "resourceclaimtemplates", "resourceslices",
)))  # fmt: skip
_USERS_MAX: Final = 256


def device_behaviours() -> Mapping[str, Behaviour]:
    claims = Behaviour(errors=_claim_errors, status_errors=_status_errors)
    return {**dict.fromkeys(_KINDS, Behaviour()), _CLAIMS: claims}


def _claim_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    if old is not None and new.get("spec") != old.get("spec"):
        yield field_errors.invalid("spec", new.get("spec"), "field is immutable")


def _status_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    """An allocation comes and goes as a whole, and only an allocated claim is reserved."""
    status, before = new.get("status", {}), (old or {}).get("status", {})
    allocation, users = status.get("allocation"), status.get("reservedFor") or ()
    was = before.get("allocation")
    if allocation is not None and was is not None and allocation != was:
        yield field_errors.invalid("status.allocation", allocation, "field is immutable")
    if users and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        yield field_errors.forbidden("status.reservedFor", detail)
    if len(users) > _USERS_MAX:
        detail = f"must have at most {_USERS_MAX} items"
        yield field_errors.invalid("status.reservedFor", len(users), detail)
    uids = [one.get("uid") for one in users]
    for index, uid in enumerate(uids):
        if uid in uids[:index]:
            yield field_errors.duplicate(f"status.reservedFor[{index}].uid", uid)
