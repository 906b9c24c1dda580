"""The newest known state of the objects of one kind, with indexes. It never goes back in time.

Facts come from three sides: the watch, lists, and answers to our own reads and writes. They arrive
in any order, so each is measured against what is held: per object by its resource version, per
collection by the version the watch has reached, and for absent objects by what proved them absent.
No I/O, no clock: `informer` feeds it.
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
from swell.runtime.tombstones import Tombstones

T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", contravariant=True)

# What an index makes of an object: it sees the metadata, and the rest unless that is malformed.
Values = Callable[[ObjectMeta, T_contra | None], Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class CacheIndex(Generic[T_contra]):
    """A way to find objects by something other than their key."""

    name: str
    values: Values[T_contra]


class StaleListError(Exception):
    """A list is older than what is already known: a server that lags behind answered."""

    def __init__(self, listed: int, known: int) -> None:
        super().__init__(f"list at version {listed} is older than {known}")
        self.listed = listed
        self.known = known


@dataclass(frozen=True, slots=True)
class CacheEntry(Generic[T]):
    """One object as it is held; `object` is None when it is malformed."""

    key: Key
    uid: Uid
    version: int
    metadata: ObjectMeta
    object: T | None
    malformed: Malformed | None
    indexed: tuple[tuple[str, Hashable], ...]


class CacheChange(NamedTuple, Generic[T]):
    before: CacheEntry[T] | None
    after: CacheEntry[T] | None


class ObjectIdentity(NamedTuple):
    """Which object, and which state of it."""

    key: Key
    uid: Uid
    version: int


class ObjectCache(Generic[T]):
    """See the module's docstring. Every mutator returns what it changed: None is "nothing new"."""

    def __init__(self, indexes: Iterable[CacheIndex[T]] = ()) -> None:
        self._indexes = tuple(indexes)
        self._entries: dict[Key, CacheEntry[T]] = {}
        self._members: dict[tuple[str, Hashable], dict[Key, None]] = {}
        # Absent at a version (by a read) or for ever (a UID whose deletion was answered).
        self._absences = Tombstones()
        self._gone: dict[Key, Uid] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CacheEntry[T]]:
        return iter(self._entries.values())

    def entry(self, key: Key) -> CacheEntry[T] | None:
        return self._entries.get(key)

    def select(self, index: str, value: Hashable) -> tuple[CacheEntry[T], ...]:
        """What an index has under a value, ordered by key."""
        members = self._members.get((index, value), {})
        return tuple(self._entries[key] for key in sorted(members))

    def put(self, held: T | Malformed, as_of: int = 0) -> CacheChange[T] | None:
        """Take a state of an object, unless it is older than what is known of it.

        `as_of` is the version at which it was so, if that is not the object's own.
        """
        return self._put(identity_of(held), held, as_of)

    def put_read(self, held: T | Malformed, as_of: int = 0) -> CacheChange[T] | None:
        """Take what a consistent read or a write answered. It outweighs an earlier `put_gone`.

        Once the watch has passed the answer's version, an object not held is one that was deleted
        while the answer was on its way.
        """
        who = identity_of(held)
        if who.key not in self._entries and (as_of or who.version) <= self.version:
            return None
        self._gone.pop(who.key, None)
        return self._put(who, held, as_of)

    def mark_deleted(self, key: Key, uid: Uid) -> CacheChange[T] | None:
        """The server said that this very object is gone, though not since which version."""
        before = self._entries.get(key)
        if before is not None and before.uid != uid:
            return None
        self._gone[key] = uid
        return self._swap(key, before, None) if before else None

    def mark_absent(self, key: Key, version: int) -> CacheChange[T] | None:
        """A consistent read at `version` did not find the key."""
        before = self._entries.get(key)
        if before is not None and before.version > version:
            return None
        self.record_read(Selection(key.namespace, fields=f"metadata.name={key.name}"), version)
        return self._swap(key, before, None) if before else None

    def record_read(self, selection: Selection, version: int) -> None:
        """A consistent read at `version` has been taken: what is not held by now was not in it."""
        if version > self.version:
            self._absences.note(selection, version)

    def remove(self, key: Key, version: int) -> CacheChange[T] | None:
        """The watch reports a deletion."""
        before = self._entries.get(key)
        if before is not None and before.version > version:
            return None
        self._gone.pop(key, None)
        return self._swap(key, before, None) if before else None

    def replace(self, listed: Iterable[T | Malformed], version: int) -> list[CacheChange[T]]:
        """Take a whole list: newer states in, what it does not contain out."""
        if version < self.version:
            raise StaleListError(version, self.version)
        changes: list[CacheChange[T] | None] = []
        present: dict[Key, None] = {}
        for held in listed:
            present[identity_of(held).key] = None
            changes.append(self.put(held, version))
        missing = [key for key in self._entries if key not in present]
        changes += [self.remove(key, version) for key in missing]
        for key in [key for key in self._gone if key not in present]:
            del self._gone[key]
        self.reach(version)
        return [change for change in changes if change is not None]

    def reach(self, version: int) -> None:
        """The watch has passed this version: everything up to it has been told."""
        self.version = max(self.version, version)
        self._absences.reach(self.version)

    def _put(self, who: ObjectIdentity, held: T | Malformed, as_of: int) -> CacheChange[T] | None:
        key, uid, version = who
        before = self._entries.get(key)
        if before is not None and before.version >= version:
            return None
        if uid and self._gone.get(key) == uid:
            return None
        after = self._entry_of(who, held)
        if before is None and self._absences.cover(after.metadata, max(as_of, version)):
            return None
        self._gone.pop(key, None)
        return self._swap(key, before, after)

    def _entry_of(self, who: ObjectIdentity, held: T | Malformed) -> CacheEntry[T]:
        """Works out everything that may fail before anything is changed."""
        if isinstance(held, Malformed):
            metadata, whole, malformed = _metadata_of(held), None, held
        else:
            metadata, whole, malformed = held.metadata, held, None
        indexed = contain_call(lambda: self._places(metadata, whole))
        if isinstance(indexed, Bug):
            # An object that an index stumbles over must not hide the others.
            whole = None
            malformed = malformed or _unindexable(metadata, indexed)
            indexed = ()
        return CacheEntry(*who, metadata, whole, malformed, indexed)

    def _places(self, metadata: ObjectMeta, whole: T | None) -> tuple[tuple[str, Hashable], ...]:
        return tuple(
            dict.fromkeys(
                (index.name, value)
                for index in self._indexes
                for value in index.values(metadata, whole)
            )
        )

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
    """A resource version as the number it is; ServerError if it is none."""
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


def _unindexable(metadata: ObjectMeta, bug: Bug) -> Malformed:
    error = f"cannot be indexed: {bug.error!r}"
    body = {"metadata": to_body(metadata)}
    return Malformed(metadata.key, metadata.uid, metadata.resource_version, error, body)


def _metadata_of(malformed: Malformed) -> ObjectMeta:
    """As much of the metadata as can be read; who it is and which version is always known."""
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
