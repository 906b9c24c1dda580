"""The newest known state of the objects of one kind, with indexes. It never goes back in time.

States arrive from three sides, in any order: the watch, lists, and the answers to our own reads
and writes. So every one is compared with what the cache holds:

- a state of an object with its resource version: the higher version wins;
- a list with the version that the watch has reached: an older list is stale and refused;
- an object that is not held with the tombstones: a deletion that is already known wins.

An object is present, absent or malformed. A malformed one is held as a placeholder (`salvage`), so
that it is found under its indexes and goes on holding what it held.

That gives controllers read-your-writes without waiting for the watch (ADR 6). No I/O, no clock:
`informer` feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from swell.api.codec import convert, to_body
from swell.api.meta import Key, ObjectMeta, Status, Uid
from swell.api.resource import ApiObject
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.errors import ServerError
from swell.runtime.manager import Bug, contain_call
from swell.runtime.salvage import Placeholder, salvage
from swell.runtime.tombstones import Tombstones

T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", contravariant=True)

# The values under which an index lists an object. It is given the metadata, and the object or its
# placeholder. Without a type to salvage a malformed object as, there is only metadata.
Values = Callable[[ObjectMeta, T_contra | None], Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class CacheIndex(Generic[T_contra]):
    """Finds objects by something other than their key."""

    name: str
    values: Values[T_contra]


class StaleListError(Exception):
    """A list is older than what the cache holds: the server that answered lags behind."""

    def __init__(self, listed: int, known: int) -> None:
        super().__init__(f"list at version {listed} is older than {known}")
        self.listed = listed
        self.known = known


class CacheEntry(NamedTuple, Generic[T]):
    """One object as the cache holds it. Of a malformed one, `object` is the placeholder.

    A tuple, because one is made for every event of every informer, and a frozen dataclass takes
    four times as long to make.
    """

    key: Key
    uid: Uid
    version: int
    metadata: ObjectMeta
    object: T | None
    malformed: Malformed | None
    indexed: tuple[tuple[str, Hashable], ...]
    unknown: tuple[str, ...] = ()  # the paths of fields that could never be read


class CacheChange(NamedTuple, Generic[T]):
    """One entry that was replaced. `before` is None for an addition, `after` for a deletion."""

    before: CacheEntry[T] | None
    after: CacheEntry[T] | None


class ObjectIdentity(NamedTuple):
    """Which object, and which version of it."""

    key: Key
    uid: Uid
    version: int


class ObjectCache(Generic[T]):
    """The cache. Every mutator returns the change it made, or None if it changed nothing."""

    def __init__(
        self, indexes: Iterable[CacheIndex[T]] = (), struct: type[T] | None = None
    ) -> None:
        self._indexes = tuple(indexes)
        self._struct = struct
        self._entries: dict[Key, CacheEntry[T]] = {}
        self._members: dict[tuple[str, Hashable], dict[Key, None]] = {}
        # Two kinds of tombstone: absent up to a version, as a read has shown; and absent for
        # good, a UID whose deletion the server has confirmed without naming a version.
        self._tombstones = Tombstones()
        self._deleted: dict[Key, Uid] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CacheEntry[T]]:
        return iter(self._entries.values())

    def entry(self, key: Key) -> CacheEntry[T] | None:
        return self._entries.get(key)

    def select(self, index: str, value: Hashable) -> tuple[CacheEntry[T], ...]:
        """Returns the entries an index has under a value, ordered by key."""
        members = self._members.get((index, value), {})
        return tuple(self._entries[key] for key in sorted(members))

    def put(self, held: T | Malformed, as_of: int = 0) -> CacheChange[T] | None:
        """Take a state of an object, unless it is older than the one held.

        `as_of` is the version of the list it came in; without one it is the object's own.
        """
        return self._put(identity_of(held), held, as_of)

    def put_read(self, held: T | Malformed, as_of: int = 0) -> CacheChange[T] | None:
        """Take the answer to a consistent read or a write. It overrides `mark_deleted`.

        If the watch has passed the answer's version and the object is not held, it was deleted
        while the answer was on its way, and stays deleted.
        """
        identity = identity_of(held)
        if identity.key not in self._entries and (as_of or identity.version) <= self.version:
            return None
        self._deleted.pop(identity.key, None)
        return self._put(identity, held, as_of)

    def mark_deleted(self, key: Key, uid: Uid) -> CacheChange[T] | None:
        """Take the server's word that the object with this UID is gone, at an unknown version."""
        before = self._entries.get(key)
        if before is not None and before.uid != uid:
            return None
        self._deleted[key] = uid
        return self._swap(key, before, None) if before else None

    def mark_absent(self, key: Key, version: int) -> CacheChange[T] | None:
        """Take a consistent read at `version` that did not find the key."""
        before = self._entries.get(key)
        if before is not None and before.version > version:
            return None
        self.record_read(Selection(key.namespace, fields=f"metadata.name={key.name}"), version)
        return self._swap(key, before, None) if before else None

    def record_read(self, selection: Selection, version: int) -> None:
        """Note a consistent read whose objects have been put: no other existed at `version`."""
        if version > self.version:
            self._tombstones.record(selection, version)

    def remove(self, key: Key, version: int) -> CacheChange[T] | None:
        """Take a deletion that the watch reports."""
        before = self._entries.get(key)
        if before is not None and before.version > version:
            return None
        self._deleted.pop(key, None)
        return self._swap(key, before, None) if before else None

    def replace(self, listed: Iterable[T | Malformed], version: int) -> list[CacheChange[T]]:
        """Take a list of the whole collection; what it lacks is removed. Raises StaleListError."""
        if version < self.version:
            raise StaleListError(version, self.version)
        changes: list[CacheChange[T] | None] = []
        present: dict[Key, None] = {}
        for held in listed:
            present[identity_of(held).key] = None
            changes.append(self.put(held, version))
        # `remove` keeps entries that are newer than the list: answers to our own writes.
        missing = [key for key in self._entries if key not in present]
        changes += [self.remove(key, version) for key in missing]
        # The list confirms these deletions, so they need not be remembered.
        for key in [key for key in self._deleted if key not in present]:
            del self._deleted[key]
        self.advance(version)
        return [change for change in changes if change is not None]

    def advance(self, version: int) -> None:
        """Note that the watch has reported everything up to this version."""
        self.version = max(self.version, version)
        self._tombstones.advance(self.version)

    def _put(
        self, identity: ObjectIdentity, held: T | Malformed, as_of: int
    ) -> CacheChange[T] | None:
        key, uid, version = identity
        before = self._entries.get(key)
        if before is not None and before.version >= version:
            return None
        # A late event of the object that was deleted. Another UID is a new object of that name.
        if uid and self._deleted.get(key) == uid:
            return None
        # A new object needs the tombstones' consent; one that is held has been seen since.
        after = self._entry_of(identity, held)
        if before is None and self._tombstones.covers(after.metadata, max(as_of, version)):
            return None
        self._deleted.pop(key, None)
        return self._swap(key, before, after)

    def _entry_of(self, identity: ObjectIdentity, held: T | Malformed) -> CacheEntry[T]:
        """Compute everything that may fail before the cache is changed."""
        before = self._entries.get(identity.key)
        # Another object of that name says nothing about this one.
        if before is not None and before.uid != identity.uid:
            before = None
        malformed: Malformed | None = None
        unknown: tuple[str, ...] = ()
        whole: T | None
        if isinstance(held, Malformed):
            malformed, metadata = held, _metadata_of(held)
            whole, unknown = self._salvaged(held, before)
            if whole is not None:
                metadata = whole.metadata
        else:
            metadata, whole = held.metadata, held
        indexed, bug = self._places(metadata, whole, before)
        if bug is not None:
            # An object that breaks an index must not hide the others: it counts as malformed.
            malformed = malformed or _unindexable(metadata, bug)
        return CacheEntry(*identity, metadata, whole, malformed, indexed, unknown)

    def _salvaged(
        self, held: Malformed, before: CacheEntry[T] | None
    ) -> tuple[T | None, tuple[str, ...]]:
        if self._struct is None:
            return None, ()
        last = None
        if before is not None and before.object is not None:
            last = Placeholder(before.object, before.unknown)
        found = salvage(held, self._struct, last)
        return found.object, found.unknown

    def _places(
        self, metadata: ObjectMeta, whole: T | None, before: CacheEntry[T] | None
    ) -> tuple[tuple[tuple[str, Hashable], ...], Bug | None]:
        """Returns the places in the indexes. In one that fails the object keeps its place."""
        # All at once, since hardly any object ever breaks an index and every event comes by here.
        found = contain_call(self._all_places, metadata, whole)
        if not isinstance(found, Bug):
            return found, None
        places: dict[tuple[str, Hashable], None] = {}
        bug = None
        for index in self._indexes:
            values = contain_call(_values, index, metadata, whole)
            if isinstance(values, Bug):
                bug = bug or values
                kept = before.indexed if before is not None else ()
                places.update((place, None) for place in kept if place[0] == index.name)
            else:
                places.update(((index.name, value), None) for value in values)
        return tuple(places), bug

    def _all_places(
        self, metadata: ObjectMeta, whole: T | None
    ) -> tuple[tuple[str, Hashable], ...]:
        """Returns the places in all indexes, each once; raises what an index raises."""
        places = [
            (index.name, value)
            for index in self._indexes
            for value in index.values(metadata, whole)
        ]
        return tuple(dict.fromkeys(places)) if len(places) > 1 else tuple(places)

    def _swap(
        self, key: Key, before: CacheEntry[T] | None, after: CacheEntry[T] | None
    ) -> CacheChange[T]:
        old = before.indexed if before else ()
        new = after.indexed if after else ()
        if old != new:
            for place in old:
                members = self._members[place]
                del members[key]
                if not members:
                    del self._members[place]
            for place in new:
                self._members.setdefault(place, {})[key] = None
        if after is None:
            del self._entries[key]
        else:
            self._entries[key] = after
        return CacheChange(before, after)


def parse_version(text: str) -> int:
    """Returns a resource version as a number; raises ServerError if it is none."""
    try:
        return int(text)
    except ValueError:
        status = Status(message=f"resource version is not a number: {text!r}", code=500)
        raise ServerError(status) from None


def identity_of(held: ApiObject | Malformed) -> ObjectIdentity:
    if isinstance(held, Malformed):
        return ObjectIdentity(held.key, held.uid, parse_version(held.resource_version))
    metadata = held.metadata
    return ObjectIdentity(metadata.key, metadata.uid, parse_version(metadata.resource_version))


def _values(index: CacheIndex[T], metadata: ObjectMeta, whole: T | None) -> tuple[Hashable, ...]:
    return tuple(index.values(metadata, whole))


def _unindexable(metadata: ObjectMeta, bug: Bug) -> Malformed:
    error = f"cannot be indexed: {bug.error!r}"
    body = {"metadata": to_body(metadata)}
    return Malformed(metadata.key, metadata.uid, metadata.resource_version, error, body)


def _metadata_of(malformed: Malformed) -> ObjectMeta:
    """Returns as much of the metadata as can be read; the identity is always known."""
    try:
        read = convert(malformed.body.get("metadata"), ObjectMeta)
    except msgspec.ValidationError:
        read = ObjectMeta()
    return msgspec.structs.replace(
        read,
        namespace=malformed.key.namespace,
        name=malformed.key.name,
        uid=malformed.uid,
        resource_version=malformed.resource_version,
    )
