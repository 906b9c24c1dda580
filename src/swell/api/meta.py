"""Metadata every API object carries, and the shape of an API server's Status.

Structs hold only the fields we read; decoding ignores the others. So a struct is never sent back:
what is written to a cluster is a patch, or a body built for that purpose (ADR 3).
"""

from __future__ import annotations

from typing import Any, NamedTuple, NewType

import msgspec

Uid = NewType("Uid", str)

# A JSON object as it goes over the wire. `Any` is meant: values are whatever JSON allows.
Body = dict[str, Any]


class Key(NamedTuple):
    """Identifies an object within its kind; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ApiStruct(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The configuration of all API structs: immutable, camelCase on the wire, defaults left out.

    `gc=False` keeps structs out of Python's cyclic garbage collector, which would otherwise visit
    every cached object again and again. They are trees, so there are no cycles to find.
    """


class OwnerReference(ApiStruct, frozen=True):
    """Names an owner: when it is deleted, the garbage collector deletes the object too."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: Uid = Uid("")
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(ApiStruct, frozen=True):
    """The metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object; Kubernetes allows at most one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Condition(ApiStruct, frozen=True):
    """Something that holds of an object or not, with a reason and since when."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0


class StatusCause(ApiStruct, frozen=True):
    """One field that is wrong, within a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(ApiStruct, frozen=True):
    """The object that a Status is about, and what is wrong with it."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(ApiStruct, frozen=True):
    """An API server's answer in place of an object, mostly an error."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None
    kind: str = "Status"
    api_version: str = "v1"
