"""Keeps a cache of one kind of object current, and tells handlers which keys changed.

List, then watch from there; a broken watch is taken up again where it ended, a compacted one is
followed by a new list. Handlers are given keys and nothing else: what happened is to be read from
the cache, so that nobody depends on seeing every change. Decides nothing; writes nothing.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

import msgspec

from swell.api.codec import convert
from swell.api.meta import Body, Key, ObjectMeta, Uid
from swell.api.resource import ApiObject, Resource
from swell.runtime.backoff import Backoff
from swell.runtime.cache import (
    Cache,
    Change,
    Entry,
    Index,
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
from swell.runtime.errors import ClusterError, GoneError, NotFoundError, UnreachableError
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain

T = TypeVar("T", bound=ApiObject)
Handler = Callable[[Key], None]
log = get_logger(__name__)

OWNER = "owner"
RECONNECT = Backoff(base_s=0.2, cap_s=30.0)


def by_label(label: str) -> Index[object]:
    """Finds objects by a label's value."""
    return Index(f"label {label}", lambda metadata, _: _label_values(metadata, label))


def by_controller_key(kind: str) -> Index[object]:
    """Finds objects by the key of the controller that owns them, whatever its UID."""

    def values(metadata: ObjectMeta, _: object) -> Iterable[Key]:
        owner = metadata.controller
        return (Key(metadata.namespace, owner.name),) if owner and owner.kind == kind else ()

    return Index(f"controller {kind}", values)


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """Times and sizes. A watch is renewed between one and two `watch_s`."""

    watch_s: float = 300.0
    # A server that never ends the watch it was asked to end is taken for dead.
    watch_grace_s: float = 15.0
    call_s: float = 60.0
    # From time to time everything is listed anew and every key handed out, in case one got lost.
    resync_s: float = 1800.0
    page_size: int = 1000
    # When more objects than this are to be read one by one, one list of all is cheaper.
    single_reads_max: int = 32
    backoff: Backoff = RECONNECT
    # A kind the cluster may not serve: then there are no objects, and it is asked for now and then.
    is_optional: bool = False


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
        indexes: Sequence[Index[T]] = (),
        options: InformerOptions = InformerOptions(),  # noqa: B008
    ) -> None:
        self.resource = resource
        self.selection = selection
        self.synced = False
        self.is_served = True
        self.last_error = ""
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._options = options
        self._cache = Cache[T]([Index(OWNER, _owner_uids), *indexes])
        self._handlers: list[tuple[str, Handler]] = []
        self._synced_event = asyncio.Event()
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._n_waiters = 0
        self._failures = 0
        self._must_list = True
        self._resync_at = 0.0
        self._heard_at = 0.0

    # -- reading -----------------------------------------------------------------------------

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
            for key in _routed(index, Change(None, entry)):
                handler(key)

    def problem(self, patience_s: float = 180.0) -> str:
        """What keeps this informer from knowing the present; empty when nothing does."""
        if not self.synced:
            return f"not listed yet: {self.last_error}" if self.last_error else "not listed yet"
        silent_s = self._clock.monotonic() - self._heard_at
        if self.is_served and silent_s > patience_s:
            return f"nothing heard for {silent_s:.0f} s: {self.last_error}"
        return ""

    async def wait_synced(self) -> None:
        """Return when the first list is in, or the kind is optional and not served."""
        await self._synced_event.wait()

    async def wait_seen(self, version: int, within_s: float) -> bool:
        """Whether the watch passes a version in time. Quiet kinds wait for a bookmark."""
        if self._cache.version >= version:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._n_waiters += 1
        heapq.heappush(self._waiters, (version, self._n_waiters, waiter))
        try:
            async with asyncio.timeout(within_s):
                await waiter
        except TimeoutError:
            return False
        return True

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

    def observe_gone(self, key: Key, uid: Uid) -> None:
        """Take the answer to a delete: this very object does not exist any more."""
        self._notify(self._cache.put_gone(key, uid))

    async def refresh(self, key: Key) -> None:
        """Read one object consistently. A list of one: unlike a get it tells as of which version
        an object is absent, and hands over a malformed one."""
        selection = Selection(key.namespace, fields=f"metadata.name={key.name}")
        listed, version = await self._read(selection)
        for held in listed:
            self._notify(self._cache.put_read(held, version))
        if not listed:
            self._notify(self._cache.put_absent(key, version))

    async def refresh_selected(self, selection: Selection, held: Iterable[Key]) -> None:
        """Read a part of the collection consistently; `held` are keys that should be in it.

        What is not listed is read by its key: it may have left the selection without being gone.
        """
        listed, version = await self._read(selection)
        for item in listed:
            self._notify(self._cache.put_read(item, version))
        present = {_key_of(item) for item in listed}
        missing = [key for key in held if key not in present]
        if len(missing) > self._options.single_reads_max:
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
        listed, version = await self._list_all(selection)
        if version < known:
            raise StaleListError(version, known)
        return listed, version

    # -- the loop ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        backoff = self._options.backoff
        while True:
            started = self._clock.monotonic()
            asked_s = await contain(self._follow())
            if isinstance(asked_s, Bug):
                log.error("informer failed", resource=str(self.resource), trace=asked_s.trace)
                asked_s = 0.0
            if self._clock.monotonic() - started >= backoff.cap_s:
                self._failures = 0
            # A watch that ends at once, however politely, must not be renewed in a hot loop.
            if self._failures:
                asked_s = max(asked_s, backoff.delay_s(self._failures, self._random))
            await self._clock.sleep(asked_s)
            self._failures += 1

    async def _follow(self) -> float:
        """List if need be and watch once. Returns how long the server asks us to stay away."""
        try:
            if self._must_list:
                await self._list()
            elif self._clock.monotonic() >= self._resync_at:
                await self._list()
                for entry in self._sorted():
                    self._notify(Change(entry, entry))
            await self._watch()
        except GoneError as error:
            self._must_list = True
            self._note(error)
        except ClusterError as error:
            self._note(error)
            return error.retry_after_s
        except (UnreachableError, StaleListError, TimeoutError) as error:
            self._note(error)
        return 0.0

    async def _list(self) -> None:
        try:
            listed, version = await self._list_all(self.selection)
        except NotFoundError:
            # Collections are never absent, only kinds are.
            self.is_served = False
            if self._options.is_optional:
                self._set_synced()
            raise
        self.is_served = True
        self._replace(listed, version)
        self._must_list = False
        self._resync_at = self._clock.monotonic() + self._jittered(self._options.resync_s)
        self.last_error = ""
        self._heard_at = self._clock.monotonic()
        self._set_synced()

    def _replace(self, listed: list[T | Malformed], version: int) -> None:
        for change in self._cache.replace(listed, version):
            self._notify(change)
        self._wake_waiters()

    def _set_synced(self) -> None:
        self.synced = True
        self._synced_event.set()

    async def _list_all(self, selection: Selection) -> tuple[list[T | Malformed], int]:
        """Every page of a consistent list, and the version they are of."""
        listed: list[T | Malformed] = []
        token = ""
        async with asyncio.timeout(self._options.call_s):
            while True:
                page = await self._cluster.list(
                    self.resource,
                    selection,
                    limit=self._options.page_size,
                    continue_token=token,
                )
                listed += page.items
                listed += page.malformed
                token = page.continue_token
                if not token:
                    return listed, parse_version(page.resource_version)

    async def _watch(self) -> None:
        wanted_s = self._jittered(self._options.watch_s)
        watch_s = max(1.0, min(wanted_s, self._resync_at - self._clock.monotonic()))
        async with (
            asyncio.timeout(watch_s + self._options.watch_grace_s),
            self._cluster.watch(
                self.resource,
                self.selection,
                resource_version=str(self._cache.version),
                timeout_s=watch_s,
            ) as events,
        ):
            async for event in events:
                self._take(event)
                self._failures = 0
                self._heard_at = self._clock.monotonic()

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
        self._wake_waiters()

    def _notify(self, change: Change[T] | None) -> None:
        if change is None:
            return
        for index, handler in self._handlers:
            for key in _routed(index, change):
                handler(key)

    def _wake_waiters(self) -> None:
        while self._waiters and self._waiters[0][0] <= self._cache.version:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)

    def _note(self, error: Exception) -> None:
        self.last_error = f"{type(error).__name__}: {error}"
        log.info("watch interrupted", resource=str(self.resource), error=self.last_error)

    def _jittered(self, span_s: float) -> float:
        return span_s * (1 + self._random.random())

    def _sorted(self) -> list[Entry[T]]:
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


def _objects(entries: Iterable[Entry[T]]) -> tuple[T, ...]:
    return tuple(entry.object for entry in entries if entry.object is not None)


def _key_of(held: ApiObject | Malformed) -> Key:
    return held.key if isinstance(held, Malformed) else held.metadata.key


def _routed(index: str, change: Change[T]) -> Iterable[Key]:
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
