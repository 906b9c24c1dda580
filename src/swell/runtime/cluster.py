"""The cluster port: the only way a component reads or changes a cluster.

It is implemented by the Kubernetes client, by the embedded API server in the same process, and by
the simulator's fault injector. Reads decode into the resource's struct; writes take JSON bodies
(ADR 3). An object that cannot be decoded does not hide the others of its list: it is returned as
`Malformed`.
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
    """An object that could not be decoded, with what is needed to report that on it."""

    key: Key
    uid: Uid
    resource_version: str
    error: str
    body: Body


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects of a kind: one namespace or all, and label and field selectors as text."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """A collection, or one page of it, as of one version."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    malformed: tuple[Malformed, ...] = ()


class EventType(Enum):
    """The type of a watch event, as the API writes it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event of a watch. A bookmark has no object; a state that is known already may lack it."""

    type: EventType
    object: T | Malformed | None
    resource_version: str


class PatchKind(Enum):
    """The kind of a patch, as its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"  # server-side apply: JSON is YAML, too


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch of one of the kinds that the API takes."""

    kind: PatchKind
    body: object


def merge_patch(body: Body) -> Patch:
    """Returns a JSON merge patch. With `metadata.resourceVersion` in it, it is conditional."""
    return Patch(PatchKind.MERGE, body)


@dataclass(frozen=True, slots=True)
class Deletion:
    """Preconditions of a delete, its grace period, and what happens to owned objects."""

    uid: Uid | None = None
    resource_version: str | None = None
    grace_s: int | None = None
    propagation: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a create, an update or a patch."""

    dry_run: bool = False
    field_validation: str | None = None
    field_manager: str = ""  # needed by a server-side apply
    force: bool = False  # a server-side apply takes fields from other managers


PLAIN = WriteOptions()
PLAIN_DELETION = Deletion()


# Whether the caller holds this version of an object already, or a later one.
IsKnown = Callable[[Key, str], bool]


class Cluster(Protocol):
    """A Kubernetes API, real or embedded. Every call may raise what `runtime.errors` lists."""

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        """Returns one object. Without a version the read is consistent: it sees finished writes."""
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
        """Returns a collection at one version. `resource_version="0"` allows a stale read."""
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
        """Yields the changes after a version, with bookmarks, until either side ends the watch.

        An object for which `is_known` holds may be left undecoded: most events that a writer gets
        repeat its own writes, and decoding is the most expensive part of them.
        Raises GoneError, on entering or while iterating, when the version is compacted.
        """
        ...

    async def create(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        """Create an object. For a binding or an eviction the body's metadata names the pod."""
        ...

    async def update(
        self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN
    ) -> T: ...

    async def patch(
        self, resource: Resource[T], key: Key, patch: Patch, options: WriteOptions = PLAIN
    ) -> T: ...

    async def delete(
        self, resource: Resource[T], key: Key, deletion: Deletion = PLAIN_DELETION
    ) -> T | None:
        """Delete an object. Returns it if it still exists (grace period, finalizers), else None."""
        ...

    async def try_delete(self, resource: Resource[T], key: Key) -> Uid:
        """Returns the UID of an object, by a dry run of its deletion.

        That takes the right to delete the object, not the right to read it.
        """
        ...

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: Deletion = PLAIN_DELETION,
    ) -> None:
        """Delete all that is selected. Controllers do not use it: it has no preconditions."""
        ...
