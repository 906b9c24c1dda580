"""The parameters and results of the verbs, and the bodies of requests that are no stored kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Literal, TypeVar

import msgspec

from swell.api.codec import convert
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import ADMIN, Identity
from swell.cluster.embedded.storage import Stored
from swell.runtime.cluster import EventType

S = TypeVar("S", bound="_Shape")

# -- parameters --------------------------------------------------------------------------------


@dataclass(slots=True)
class RequestContext:
    """The client of a write and its options; warnings for the response are collected here."""

    actor: str
    dry_run: bool = False
    field_validation: str = ""
    warnings: list[str] = field(default_factory=list)
    # Fields that the body of a patch gives twice: reported once the patched object could be read.
    duplicates: list[str] = field(default_factory=list)
    identity: Identity = ADMIN
    manager: str = ""  # the name under which fields are owned; else the actor's
    force: bool = False  # an apply takes fields from other managers


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects of a kind, at which version, how many at a time."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None  # only for watches: a list with it is refused


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Which changes of a kind, from which version on."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions, the grace period, and how dependents are treated."""

    uid: str | None = None
    resource_version: str | None = None
    grace_s: int | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None


# -- results -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or a part of one. `remaining` is None where a real server sends no count."""

    items: tuple[Stored, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The object after an update, and whether the update created it."""

    stored: Stored
    created: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object as the delete left it: marked and waiting, or gone."""

    stored: Stored
    gone: bool
    version: int


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event of a watch, with the stored object; a bookmark has none."""

    type: EventType
    stored: Stored | None
    version: int
    ends_initial: bool = False


# -- bodies ------------------------------------------------------------------------------------


class _Shape(msgspec.Struct, rename="camel"):
    """The types of a body's fields. As in Go, null means the same as a missing field."""


class _MetadataShape(_Shape):
    """The metadata of a binding, eviction or scale."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, object]] | None = None
    managed_fields: list[dict[str, object]] | None = None
    self_link: str | None = None


class _TargetShape(_Shape):
    """The node of a binding."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class BindingShape(_Shape):
    """The body of a pod's `binding`."""

    kind: Literal["Binding", ""] | None = None
    api_version: Literal["v1", ""] | None = None
    metadata: _MetadataShape | None = None
    target: _TargetShape | None = None


class _PreconditionsShape(_Shape):
    """The state that a delete was decided on."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptionsShape(_Shape):
    """The options of a delete, as the body of a request or of an eviction has them."""

    kind: str | None = None
    api_version: str | None = None
    preconditions: _PreconditionsShape | None = None
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str | None] | None = None
    # Its type is checked; deleting what cannot be read is not served.
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None

    def options(self) -> DeleteOptions:
        conditions = self.preconditions or _PreconditionsShape()
        return DeleteOptions(
            uid=conditions.uid,
            resource_version=conditions.resource_version,
            grace_s=self.grace_period_seconds,
            propagation=self.propagation_policy,
            orphan_dependents=self.orphan_dependents,
        )


class EvictionShape(_Shape):
    """The body of a pod's `eviction`."""

    kind: Literal["Eviction", ""] | None = None
    api_version: Literal["policy/v1", "policy/v1beta1", ""] | None = None
    metadata: _MetadataShape | None = None
    delete_options: DeleteOptionsShape | None = None


class _ScaleSpecShape(_Shape):
    """The desired size of a Scale."""

    replicas: int | None = None


class _ScaleStatusShape(_Shape):
    """The observed size of a Scale."""

    replicas: int | None = None
    selector: str | None = None


class ScaleShape(_Shape):
    """The body of a `scale` subresource."""

    kind: Literal["Scale", ""] | None = None
    api_version: Literal["autoscaling/v1", ""] | None = None
    metadata: _MetadataShape | None = None
    spec: _ScaleSpecShape | None = None
    status: _ScaleStatusShape | None = None


def read_shape(body: object, shape: type[S], verb: str, request: RequestContext) -> S:
    """The body as a struct. A field of another type is refused, an unknown one as is asked for."""
    try:
        read = convert(body, shape)
    except msgspec.ValidationError as error:
        raise refusals.not_of_kind(verb, str(error)) from error
    found = [f'unknown field "{path}"' for path in _unknown(body, read, "")]
    if found and request.field_validation == "Strict":
        raise refusals.strict_decoding(verb, found)
    if request.field_validation != "Ignore":
        request.warnings.extend(found)
    return read


@cache
def _fields_of(shape: type[_Shape]) -> dict[str, str]:
    """Returns the attributes of a struct by the names of their fields; slow to find out."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(shape)}


def _unknown(body: object, read: _Shape, path: str) -> Iterator[str]:
    """The paths of the fields that a struct does not have."""
    known = _fields_of(type(read))
    for name, value in body.items() if isinstance(body, dict) else ():
        if name not in known:
            yield path + name
        elif isinstance(inner := getattr(read, known[name]), _Shape):
            yield from _unknown(value, inner, f"{path}{name}.")
