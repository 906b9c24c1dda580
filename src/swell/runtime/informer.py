"""Keeps a cache of one kind of object current, and calls handlers with the keys that changed.

Handlers receive keys and no events: the state is to be read from the cache, so that no handler
depends on seeing every change. `reflector` keeps the list and the watch going, `cache` decides
which of two states is newer, `feed` keeps the failure of one handler from the others. An informer
decides nothing and writes nothing.

An object is present, absent or malformed, and these are three answers. `get` returns None for an
absent object alone. For a malformed one it returns a placeholder (`salvage`), so that a consumer
that does not ask goes on counting what the object held; `malformed` says that it is one, and
`unreadable` whether a field is missing that was never readable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

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
from swell.runtime.errors import NotFoundError
from swell.runtime.feed import Feed, FeedMeter, Handler
from swell.runtime.logs import get_logger
from swell.runtime.reflector import InformerOptions, Reflector, ReflectorSink

T = TypeVar("T", bound=ApiObject)
log = get_logger(__name__)

OWNER = "owner"  # the name of the index that every informer has


def by_label(label: str) -> CacheIndex[object]:
    """Returns an index of objects by the value of a label."""
    return CacheIndex(f"label {label}", lambda metadata, _: _label_values(metadata, label))


def by_controller_key(kind: str) -> CacheIndex[object]:
    """Returns an index of objects by the key of their controller, whatever its UID."""

    def values(metadata: ObjectMeta, _: object) -> Iterable[Key]:
        owner = metadata.controller
        return (Key(metadata.namespace, owner.name),) if owner and owner.kind == kind else ()

    return CacheIndex(f"controller {kind}", values)


class InformerMeter(FeedMeter, Protocol):
    """Measures informers: objects that cannot be decoded, and handlers that failed."""

    def malformed_objects(self, resource: str, n_objects: int) -> None: ...


class RunnableInformer(Protocol):
    """An informer of any kind, as a program needs it: to run it, and to ask for its health."""

    @property
    def resource(self) -> Resource[object]: ...

    @property
    def synced(self) -> bool: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...

    def problem(self, patience_s: float = ...) -> str: ...


class Informer(Generic[T]):
    """A cache of one kind. `run` is a task of its own; the rest may be called at any time.

        created --- run ---> listing --- the first list is in ---> synced
                                |                                   |  ^
                                |                      watch broken |  | resumed or listed anew
                                |                                   v  |
                                |                           stale, still readable
                                |
                                +--- the kind is optional and not served ---> synced and empty

    It never leaves `synced`: when the watch breaks the cache stays readable, and `problem` says
    for how long nothing was heard. Writers pass on the answers to their writes (`observe`,
    `observe_deleted`), so that a decision reads its own writes before the watch repeats them.
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
        meter: InformerMeter | None = None,
    ) -> None:
        self.resource = resource
        self.selection = selection
        self._single_reads_max = options.single_reads_max
        self._is_optional = options.is_optional
        self._cache = ObjectCache[T]([CacheIndex(OWNER, _owner_uids), *indexes], resource.struct)
        self._handlers: list[tuple[str, Handler, Feed]] = []
        self._meter = meter
        self._n_malformed = 0
        # Called with an object that cannot be decoded, once for each error.
        self.on_malformed: list[Callable[[Malformed], None]] = []
        # Called when an optional kind turns out to be forbidden, and when it may be read again.
        self.on_access_changed: list[Callable[[], None]] = []
        self._reflector = Reflector(
            cluster,
            resource,
            ReflectorSink(
                lambda: self.version,
                self._replace,
                self._take,
                self._is_known,
                self._resync,
                self._access_changed,
            ),
            selection=selection,
            clock=clock,
            random=random,
            options=options,
        )

    async def run(self) -> None:
        """List and watch the collection until cancelled."""
        await self._reflector.run()

    # -- reading -----------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the first list is in, or the kind is optional and not served or readable."""
        return self._reflector.synced.is_set()

    @property
    def is_served(self) -> bool:
        """Whether the cluster has the kind, as far as is known."""
        return self._reflector.is_served

    @property
    def is_forbidden(self) -> bool:
        """Whether the kind counts as empty because it may not be read."""
        return self._reflector.is_forbidden

    @property
    def last_error(self) -> str:
        """The error that last interrupted the watch."""
        return self._reflector.last_error

    @property
    def version(self) -> int:
        """The version the watch has reached."""
        return self._cache.version

    def __len__(self) -> int:
        return len(self._cache)

    def get(self, key: Key) -> T | None:
        """Returns the object, the placeholder of a malformed one, or None if there is none."""
        entry = self._cache.entry(key)
        return entry.object if entry else None

    def malformed(self, key: Key) -> Malformed | None:
        """Returns the object under a key if it could not be decoded."""
        entry = self._cache.entry(key)
        return entry.malformed if entry else None

    def unreadable(self, key: Key, *, but: Sequence[str] = ()) -> str:
        """Returns why an object cannot be read in full, or the empty text if it can.

        It can be, also while it is malformed, if every wrong field was readable before. Fields
        at or below the paths in `but` do not count.
        """
        entry = self._cache.entry(key)
        if entry is None or entry.malformed is None:
            return ""
        wrong = [path for path in entry.unknown if not any(_is_within(path, one) for one in but)]
        return f"{self.resource.kind} {key}: {entry.malformed.error}" if wrong else ""

    @property
    def n_malformed(self) -> int:
        """How many objects are malformed now."""
        return self._n_malformed

    def keys(self) -> tuple[Key, ...]:
        return tuple(sorted(entry.key for entry in self._cache))

    def all(self) -> tuple[T, ...]:
        """Returns every object, placeholders of malformed ones included, ordered by key."""
        return _objects(self._sorted())

    def by_owner(self, uid: Uid) -> tuple[T, ...]:
        """Returns the objects whose controller has this UID, ordered by key."""
        return self.by_index(OWNER, uid)

    def by_label(self, label: str, value: str) -> tuple[T, ...]:
        """Returns the objects with a label. The informer must have the index `by_label(label)`."""
        return self.by_index(f"label {label}", value)

    def by_index(self, index: str, value: Hashable) -> tuple[T, ...]:
        return _objects(self._cache.select(index, value))

    def keys_by_index(self, index: str, value: Hashable) -> tuple[Key, ...]:
        """Returns the keys of the objects that `by_index` has."""
        return tuple(entry.key for entry in self._cache.select(index, value))

    # -- handlers and health -----------------------------------------------------------------

    def add_handler(self, handler: Handler, index: str = "", feed: Feed | None = None) -> None:
        """Have a handler called with the key of every object that changes or is deleted.

        With an index whose values are keys, it is called with the values that the object had and
        has there instead: so the change of a pod wakes its owner. What the cache holds by now is
        handed to the handler before this returns. Handlers of one consumer share its feed, which
        rebuilds it when one of them has failed.
        """
        feed = feed or Feed(f"{self.resource} {_name_of(handler)}", meter=self._meter)
        self._handlers.append((index, handler, feed))
        for entry in self._sorted():
            for key in _routed(index, CacheChange(None, entry)):
                feed.hand_over(handler, key)

    def problem(self, patience_s: float = 180.0) -> str:
        """Returns why the cache may be out of date, or the empty text if it is current."""
        return self._reflector.problem(patience_s)

    async def wait_synced(self) -> None:
        await self._reflector.synced.wait()

    # -- answers to reads and writes ---------------------------------------------------------

    def observe(self, held: T | Malformed) -> None:
        """Take the answer to a write or a consistent read, ahead of the watch.

        Only for objects within this informer's selection: the watch would never report the
        deletion of any other.
        """
        self._notify(self._cache.put_read(held))

    def observe_answer(self, answer: object) -> None:
        """Take the answer to a write of this kind, whether it is a struct or plain JSON."""
        if isinstance(answer, dict):
            self.observe(_converted(answer, self.resource))
        elif isinstance(answer, self.resource.struct):
            self.observe(answer)

    def observe_deleted(self, key: Key, uid: Uid) -> None:
        """Take the answer to a delete: the object with this UID does not exist any more."""
        self._notify(self._cache.mark_deleted(key, uid))

    async def refresh(self, key: Key) -> None:
        """Read one object consistently.

        It is read as a list of one. Unlike a get, a list has a version as of which the object is
        absent, and hands a malformed object over.
        """
        selection = Selection(key.namespace, fields=f"metadata.name={key.name}")
        listed, version = await self._read(selection)
        for held in listed:
            self._notify(self._cache.put_read(held, version))
        if not listed:
            self._notify(self._cache.mark_absent(key, version))

    async def refresh_selected(self, selection: Selection, index: str, value: Hashable) -> None:
        """Read the part of the collection consistently that an index has under a value.

        An object that the index has there and the list lacks is read by its key: it may have left
        the selection without being deleted.
        """
        try:
            listed, version = await self._read(selection)
        except NotFoundError:
            if self._is_optional:
                return  # the kind is not served, so there is nothing to be read
            raise
        for item in listed:
            self._notify(self._cache.put_read(item, version))
        # Only after the objects of the read are in: a tombstone covers all that is not held.
        self._cache.record_read(selection, version)
        present = {_key_of(item) for item in listed}
        held = self._cache.select(index, value)
        # An entry newer than the read says nothing about it: it may have come since.
        missing = [e.key for e in held if e.version <= version and e.key not in present]
        if len(missing) > self._single_reads_max:
            await self._refresh_all()
            return
        for key in missing:
            await self.refresh(key)

    async def _refresh_all(self) -> None:
        listed, version = await self._read(self.selection)
        if version > self._cache.version:  # otherwise the watch has reported all of it meanwhile
            self._replace(listed, version)

    async def _read(self, selection: Selection) -> tuple[list[T | Malformed], int]:
        """Returns a list that is not older than the cache was when it was asked for."""
        known = self._cache.version
        listed, version = await self._reflector.list_all(selection)
        if version < known:
            raise StaleListError(version, known)
        return listed, version

    # -- the reflector's sink ----------------------------------------------------------------

    def _replace(self, listed: Sequence[T | Malformed], version: int) -> None:
        for change in self._cache.replace(listed, version):
            self._notify(change)

    def _access_changed(self) -> None:
        for call in self.on_access_changed:
            call()

    def _resync(self) -> None:
        for entry in self._sorted():
            self._notify(CacheChange(entry, entry))

    def _take(self, event: WatchEvent[T]) -> None:
        """Take one event, unless it is a duplicate or older than the watch itself."""
        version = parse_version(event.resource_version)
        if version <= self._cache.version:
            return
        held = event.object
        if held is not None and event.type is EventType.DELETED:
            self._notify(self._cache.remove(_key_of(held), version))
        elif held is not None and event.type is not EventType.BOOKMARK:
            self._notify(self._cache.put(held))
        self._cache.advance(version)

    def _is_known(self, key: Key, version: str) -> bool:
        entry = self._cache.entry(key)
        return entry is not None and entry.version >= parse_version(version)

    def _notify(self, change: CacheChange[T] | None) -> None:
        if change is None:
            return
        before, after = change
        if (before and before.malformed) or (after and after.malformed):
            self._report_malformed(change)
        for index, handler, feed in self._handlers:
            if index:
                for key in _routed(index, change):
                    feed.hand_over(handler, key)
            elif (entry := after or before) is not None:
                feed.hand_over(handler, entry.key)

    def _report_malformed(self, change: CacheChange[T]) -> None:
        """Log an object that cannot be decoded, once for each error, and count those there are."""
        before = change.before.malformed if change.before else None
        after = change.after.malformed if change.after else None
        if before is None and after is None:
            return
        if after is not None and (before is None or before.error != after.error):
            log.warning(
                "object cannot be decoded",
                resource=str(self.resource), key=str(after.key), why=after.error,
            )  # fmt: skip
            for report in self.on_malformed:
                report(after)
        if after is None and change.after is not None:
            log.info("object can be decoded again", resource=str(self.resource))
        # A resync reports every entry as unchanged.
        if (before is None) is not (after is None):
            self._n_malformed += 1 if after is not None else -1
            if self._meter is not None:
                self._meter.malformed_objects(str(self.resource), self._n_malformed)

    def _sorted(self) -> list[CacheEntry[T]]:
        return sorted(self._cache, key=lambda entry: entry.key)


def _is_within(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}.")


def _name_of(handler: Handler) -> str:
    return getattr(handler, "__qualname__", type(handler).__name__)


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
    """Returns the keys a handler is called with, of the object before and after, each once."""
    keys: dict[Key, None] = {}
    for entry in change:
        if entry is None:
            continue
        if not index:
            keys[entry.key] = None
        else:
            keys.update((v, None) for name, v in entry.indexed if name == index)  # type: ignore[misc]
    return keys
