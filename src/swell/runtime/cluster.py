"""The cluster port: the only way a component reads or changes the world.

Implemented by the Kubernetes client, by the in-process store and by the fault injector in front
of it. Reads decode into the resource's struct; writes take JSON bodies. An object that cannot be
decoded never hides the others: it is handed over as `Malformed`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object whose shape we do not understand, with what is needed to say so on it."""

    key: Key
    uid: Uid
    resource_version: str
    error: str
    body: Body


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind: one namespace or all, label and field selectors as text."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """One consistent view of a collection, or one page of it."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    malformed: tuple[Malformed, ...] = ()


class EventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change. A bookmark has no object, and what is known already need not have one."""

    type: EventType
    object: T | Malformed | None
    resource_version: str


class PatchKind(Enum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Patch:
    kind: PatchKind
    body: object


def merge_patch(body: Body) -> Patch:
    """A JSON merge patch. Put `metadata.resourceVersion` in it to make it conditional."""
    return Patch(PatchKind.MERGE, body)


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """How to delete: preconditions, grace and what happens to owned objects."""

    uid: Uid | None = None
    resource_version: str | None = None
    grace_s: int | None = None
    propagation: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    field_validation: str | None = None


PLAIN = WriteOptions()
PLAIN_DELETION = DeleteRequest()


# Whether this version of an object, or a later one, is held already.
IsKnown = Callable[[Key, str], bool]


class Cluster(Protocol):
    """A Kubernetes API, real or embedded. Every call may raise what `runtime.errors` lists."""

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        """One object. Without a version the read is consistent: it sees every finished write."""
        ...

    async def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList[T]:
        """A collection at one version. `resource_version="0"` allows a stale answer."""
        ...

    def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float | None = None,
        is_known: IsKnown | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Changes after a version, with bookmarks, until the server or the caller ends it.

        States of objects that `is_known` may come as their version alone: most of what a writer
        is told are echoes of its own writes, and to decode them is the dearest part.
        Raises GoneError, on entering or while iterating, when the version is compacted.
        """
        ...

    async def create(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        """Create; for a subresource (binding, eviction) the body's metadata names the parent."""
        ...

    async def update(
        self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN
    ) -> T: ...

    async def patch(
        self, resource: Resource[T], key: Key, patch: Patch, options: WriteOptions = PLAIN
    ) -> T: ...

    async def delete(
        self, resource: Resource[T], key: Key, deletion: DeleteRequest = PLAIN_DELETION
    ) -> T | None:
        """Delete; the object when it lives on (grace period, finalizers), None when it is gone."""
        ...

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: DeleteRequest = PLAIN_DELETION,
    ) -> None:
        """Delete what is selected. For people: controllers never use it, it knows no UIDs."""
        ...
