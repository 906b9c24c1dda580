"""Keeps a cache of one kind of object current, and tells handlers which keys changed.

Handlers are given keys and nothing else: what happened is to be read from the cache, so that nobody
depends on seeing every change. How lists and watches are kept going is in `following`, what is
believed of them in `cache`. Decides nothing; writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Generic, TypeVar

import msgspec

from swell.api.codec import convert
from swell.api.meta import Body, Key, ObjectMeta, Uid
from swell.api.resource import ApiObject, Resource
from swell.runtime.cache import (
    CacheChange,
    CacheEntry,
    CacheIndex,
    ObjectCache,
    StaleListError,
    parse_version,
)
from swell.runtime.clock import Clock
from swell.runtime.cluster import (
    EVERYTHING,
    Cluster,
    EventType,
    Malformed,
    Selection,
    WatchEvent,
)
from swell.runtime.reflector import InformerOptions, Reflector, ReflectorSink

T = TypeVar("T", bound=ApiObject)
Handler = Callable[[Key], None]

OWNER = "owner"


def by_label(label: str) -> CacheIndex[object]:
    """Finds objects by a label's value."""
    return CacheIndex(f"label {label}", lambda metadata, _: _label_values(metadata, label))


def by_controller_key(kind: str) -> CacheIndex[object]:
    """Finds objects by the key of the controller that owns them, whatever its UID."""

    def values(metadata: ObjectMeta, _: object) -> Iterable[Key]:
        owner = metadata.controller
        return (Key(metadata.namespace, owner.name),) if owner and owner.kind == kind else ()

    return CacheIndex(f"controller {kind}", values)


class Informer(Generic[T]):
    """See the module's docstring. `run` it as a task of its own; the rest may be called any time.

    Writers tell it what was answered (`observe`, `observe_gone`), so that a decision never sees
    less than its own writes: what is held of an object is the floor below which nothing counts.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource[T],
        *,
        clock: Clock,
        random: Random,
        selection: Selection = EVERYTHING,
        indexes: Sequence[CacheIndex[T]] = (),
        options: InformerOptions = InformerOptions(),  # noqa: B008
    ) -> None:
        self.resource = resource
        self.selection = selection
        self._single_reads_max = options.single_reads_max
        self._cache = ObjectCache[T]([CacheIndex(OWNER, _owner_uids), *indexes])
        self._handlers: list[tuple[str, Handler]] = []
        self._follower = Reflector(
            cluster,
            resource,
            ReflectorSink(
                lambda: self.version, self._replace, self._take, self._is_known, self._resync
            ),
            selection=selection,
            clock=clock,
            random=random,
            options=options,
        )

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        await self._follower.run()

    # -- reading -----------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the first list is in, or the kind is optional and not served."""
        return self._follower.synced.is_set()

    @property
    def is_served(self) -> bool:
        """Whether the cluster has the kind, as far as is known."""
        return self._follower.is_served

    @property
    def last_error(self) -> str:
        """What last interrupted the watch."""
        return self._follower.last_error

    @property
    def version(self) -> int:
        """The version the watch has reached."""
        return self._cache.version

    def __len__(self) -> int:
        return len(self._cache)

    def get(self, key: Key) -> T | None:
        entry = self._cache.entry(key)
        return entry.object if entry else None

    def malformed(self, key: Key) -> Malformed | None:
        """The object under a key, if it is one that could not be understood."""
        entry = self._cache.entry(key)
        return entry.malformed if entry else None

    def keys(self) -> tuple[Key, ...]:
        return tuple(sorted(entry.key for entry in self._cache))

    def all(self) -> tuple[T, ...]:
        """Every well-formed object, by key."""
        return _objects(self._sorted())

    def by_owner(self, uid: Uid) -> tuple[T, ...]:
        """Objects whose controller has this UID, by key."""
        return self.by_index(OWNER, uid)

    def by_label(self, label: str, value: str) -> tuple[T, ...]:
        """Objects with a label; the informer must have been given `by_label(label)`."""
        return self.by_index(f"label {label}", value)

    def by_index(self, index: str, value: Hashable) -> tuple[T, ...]:
        return _objects(self._cache.select(index, value))

    def keys_by_index(self, index: str, value: Hashable) -> tuple[Key, ...]:
        """As `by_index`, malformed objects included."""
        return tuple(entry.key for entry in self._cache.select(index, value))

    # -- being told --------------------------------------------------------------------------

    def add_handler(self, handler: Handler, index: str = "") -> None:
        """Call with the key of every object that changes or goes.

        With an index, one whose values are keys, call with what the object had and has in it
        instead: so a pod's change wakes the key of its owner. What is held is told at once.
        """
        self._handlers.append((index, handler))
        for entry in self._sorted():
            for key in _routed(index, CacheChange(None, entry)):
                handler(key)

    def problem(self, patience_s: float = 180.0) -> str:
        """What keeps this informer from knowing the present; empty when nothing does."""
        return self._follower.problem(patience_s)

    async def wait_synced(self) -> None:
        await self._follower.synced.wait()

    # -- what others learned -----------------------------------------------------------------

    def observe(self, held: T | Malformed) -> None:
        """Take what a write or a consistent read answered, ahead of the watch.

        For objects within this informer's selection only: of others no watch would ever tell
        that they have gone.
        """
        self._notify(self._cache.put_read(held))

    def observe_answer(self, answer: object) -> None:
        """As `observe`, for the answer to a write of this kind in whatever form it came."""
        if isinstance(answer, dict):
            self.observe(_converted(answer, self.resource))
        elif isinstance(answer, self.resource.struct):
            self.observe(answer)

    def observe_deleted(self, key: Key, uid: Uid) -> None:
        """Take the answer to a delete: this very object does not exist any more."""
        self._notify(self._cache.mark_deleted(key, uid))

    async def refresh(self, key: Key) -> None:
        """Read one object consistently. A list of one: unlike a get it tells as of which version
        an object is absent, and hands over a malformed one."""
        selection = Selection(key.namespace, fields=f"metadata.name={key.name}")
        listed, version = await self._read(selection)
        for held in listed:
            self._notify(self._cache.put_read(held, version))
        if not listed:
            self._notify(self._cache.mark_absent(key, version))

    async def refresh_selected(self, selection: Selection, index: str, value: Hashable) -> None:
        """Read a part of the collection consistently: that which an index has under a value.

        What is held there and not listed is read by its key: it may have left the selection
        without being gone.
        """
        listed, version = await self._read(selection)
        for item in listed:
            self._notify(self._cache.put_read(item, version))
        self._cache.record_read(selection, version)
        present = {_key_of(item) for item in listed}
        held = self._cache.select(index, value)
        missing = [e.key for e in held if e.version <= version and e.key not in present]
        if len(missing) > self._single_reads_max:
            await self._refresh_all()
            return
        for key in missing:
            await self.refresh(key)

    async def _refresh_all(self) -> None:
        listed, version = await self._read(self.selection)
        if version > self._cache.version:  # otherwise the watch has told all of it meanwhile
            self._replace(listed, version)

    async def _read(self, selection: Selection) -> tuple[list[T | Malformed], int]:
        """A list that is not older than what was known when it was asked for."""
        known = self._cache.version
        listed, version = await self._follower.list_all(selection)
        if version < known:
            raise StaleListError(version, known)
        return listed, version

    # -- what the follower brings ------------------------------------------------------------

    def _replace(self, listed: Sequence[T | Malformed], version: int) -> None:
        for change in self._cache.replace(listed, version):
            self._notify(change)

    def _resync(self) -> None:
        for entry in self._sorted():
            self._notify(CacheChange(entry, entry))

    def _take(self, event: WatchEvent[T]) -> None:
        """Take one event. What is not newer than the watch itself is a duplicate or time travel."""
        version = parse_version(event.resource_version)
        if version <= self._cache.version:
            return
        held = event.object
        if held is not None and event.type is EventType.DELETED:
            self._notify(self._cache.remove(_key_of(held), version))
        elif held is not None and event.type is not EventType.BOOKMARK:
            self._notify(self._cache.put(held))
        self._cache.reach(version)

    def _is_known(self, key: Key, version: str) -> bool:
        entry = self._cache.entry(key)
        return entry is not None and entry.version >= parse_version(version)

    def _notify(self, change: CacheChange[T] | None) -> None:
        if change is None:
            return
        for index, handler in self._handlers:
            for key in _routed(index, change):
                handler(key)

    def _sorted(self) -> list[CacheEntry[T]]:
        return sorted(self._cache, key=lambda entry: entry.key)


def _owner_uids(metadata: ObjectMeta, _: object) -> Iterable[Uid]:
    owner = metadata.controller
    return (owner.uid,) if owner else ()


def _label_values(metadata: ObjectMeta, label: str) -> Iterable[str]:
    value = metadata.labels.get(label)
    return () if value is None else (value,)


def _converted(body: Body, resource: Resource[T]) -> T | Malformed:
    try:
        return convert(body, resource.struct)
    except msgspec.ValidationError as error:
        metadata = convert(body["metadata"], ObjectMeta)
        version = metadata.resource_version
        return Malformed(metadata.key, metadata.uid, version, str(error), body)


def _objects(entries: Iterable[CacheEntry[T]]) -> tuple[T, ...]:
    return tuple(entry.object for entry in entries if entry.object is not None)


def _key_of(held: ApiObject | Malformed) -> Key:
    return held.key if isinstance(held, Malformed) else held.metadata.key


def _routed(index: str, change: CacheChange[T]) -> Iterable[Key]:
    """The keys a handler is called with: those of the object before and after, each once."""
    keys: dict[Key, None] = {}
    for entry in change:
        if entry is None:
            continue
        if not index:
            keys[entry.key] = None
        else:
            keys.update((v, None) for name, v in entry.indexed if name == index)  # type: ignore[misc]
    return keys
