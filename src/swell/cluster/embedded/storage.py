"""The versioned map under the API server: collections of JSON objects, one counter, one log.

The store knows nothing about kinds, selectors or rules. Every change is a commit with the next
version. Recent commits stay in the log, so that watchers read it at their own pace and a list can
be taken as of an older version. The store never waits for a reader: one that falls behind the log
gets a `CompactedError`, and its client lists again.

A stored value never changes: a new version is a new `Stored`. Without a journal a commit is durable
at once. With one it is durable when it is on disk, and rolled back when the disk refuses it:

    commit() --> in memory and in the log --- mark_durable() --> visible --- compact() --> forgotten
                          |
                          +--- roll_back() --> removed from memory and log; hooks see it reversed

    versions:   ... compacted | kept in the log ... durable_version | not yet durable ... version

Compaction never reaches beyond `durable_version`, because rolling back needs the log.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from swell.api.meta import Key
from swell.cluster.embedded.commits import Commit, Stored, StoredChange

__all__ = [
    "Commit",
    "CompactedError",
    "Cursor",
    "Journal",
    "NotDurableError",
    "ObjectTooLargeError",
    "Storage",
    "StoreSnapshot",
    "Stored",
    "StoredChange",
]

# Bounds of the log. When one is passed, the older half of the log is forgotten. They decide for how
# many changes a client may be disconnected and still resume its watch.
KEPT_COMMITS_MAX = 10_000
KEPT_BYTES_MAX = 64 << 20
# Watches that are woken in one turn of the event loop. Sending an event takes each a fraction of a
# millisecond, so that a turn takes some milliseconds.
WOKEN_AT_ONCE = 32
# It begins as SQLite's own message does.
DISK_FULL = "database or disk is full: objects can be deleted, but not created"


# etcd's limit of a request, which a real server meets when it stores an object.
OBJECT_BYTES_MAX = 3 << 19


class ObjectTooLargeError(Exception):
    """The encoded object is larger than a store of etcd would take."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(f"{n_bytes} bytes")
        self.n_bytes = n_bytes


class CompactedError(Exception):
    """The log no longer reaches back to the version asked for."""

    def __init__(self, version: int, compacted: int) -> None:
        super().__init__(f"version {version} is older than the kept log, which begins {compacted}")
        self.version = version
        self.compacted = compacted


class NotDurableError(Exception):
    """The disk refused a write; memory has been rolled back to what the disk holds."""


class StoreSnapshot(NamedTuple):
    """The objects of a collection, or of one namespace of it, at one version, in key order."""

    items: list[tuple[Key, Stored]]
    version: int


class Journal(Protocol):
    """A writer of commits to disk. `append` does not wait: many commits may be pending."""

    def append(self, commit: Commit) -> None: ...

    def refuses_creations(self) -> bool:
        """Whether there is next to no room: what is left is for deletions and changes."""
        ...


@dataclass(slots=True)
class _Collection:
    """One collection: its objects by address, their order, and its part of the log."""

    objects: dict[str, tuple[Key, Stored]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    log: list[Commit] = field(default_factory=list)
    dropped: int = 0  # commits no longer in the log: position of log[0]
    changed: int = 0  # the version of its newest commit, durable or not
    # A dictionary, because each of thousands of watches may be cancelled at any time.
    waiters: dict[asyncio.Future[None], None] = field(default_factory=dict)

    def put(self, address: str, key: Key, after: Stored | None) -> None:
        if after is not None:
            if address not in self.objects:
                insort(self.order, address)
            self.objects[address] = (key, after)
        elif address in self.objects:
            del self.objects[address]
            del self.order[bisect_left(self.order, address)]

    def wake(self) -> None:
        waiters, self.waiters = list(self.waiters), {}
        _wake_slice(waiters)


def _wake_slice(waiters: list[asyncio.Future[None]], start: int = 0) -> None:
    """Wake some waiters now, and the others in later turns of the loop.

    Each of them has an event to send. Were all woken in one turn, a thousand watches would keep
    every other request waiting until the last one has sent it.
    """
    end = start + WOKEN_AT_ONCE
    for waiter in waiters[start:end]:
        if not waiter.done():
            waiter.set_result(None)
    if end < len(waiters):
        waiters[end].get_loop().call_soon(_wake_slice, waiters, end)


def _address(key: Key) -> str:
    """A text that sorts objects as an API server lists them. No name contains a slash."""
    return f"{key[0]}/{key[1]}"


def _span(order: list[str], namespace: str) -> list[str]:
    if not namespace:
        return order
    # "0" is the character after "/": the end of everything that begins with `namespace/`.
    return order[bisect_left(order, f"{namespace}/") : bisect_left(order, f"{namespace}0")]


class Storage:
    """All collections, their common version counter, and the log of recent commits."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        version: int = 1,  # not 0, which clients send for "any version"
        kept_commits_max: int = KEPT_COMMITS_MAX,
        kept_bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self._now = now
        self._collections: dict[str, _Collection] = {}
        self._kept_commits_max = kept_commits_max
        self._kept_bytes_max = kept_bytes_max
        self._kept: list[tuple[int, int]] = []  # (version, bytes that only the log keeps)
        self._kept_bytes = 0
        self._journal: Journal | None = None
        self._durable_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.version = version  # of the newest commit
        self.durable_version = version  # everything up to here may be shown to clients
        self.compacted = version  # the log holds every commit after this one
        self.on_commit: list[Callable[[Commit], None]] = []

    # -- reading -----------------------------------------------------------------------------

    def get(self, collection: str, key: Key) -> Stored | None:
        state = self._collection(collection).objects.get(_address(key))
        return state[1] if state else None

    @property
    def n_kept(self) -> int:
        """The commits in the log."""
        return len(self._kept)

    @property
    def n_kept_bytes(self) -> int:
        """The bytes that only the log keeps."""
        return self._kept_bytes

    def values(self, collection: str) -> list[Stored]:
        """All objects of a collection by key. Another thread may call this while commits go on."""
        # One call of C, so that no commit comes in between.
        found = list(self._collection(collection).objects.values())
        return [stored for _, stored in sorted(found, key=lambda one: one[0])]

    def changed(self, collection: str) -> int:
        """The version of the newest commit of a collection since the start; 0 for none."""
        return self._collection(collection).changed

    def count(self, collection: str) -> int:
        return len(self._collection(collection).objects)

    def collections(self) -> list[str]:
        """The names of the collections that are not empty."""
        return [name for name, state in self._collections.items() if state.objects]

    def list(self, collection: str, namespace: str = "") -> StoreSnapshot:
        state = self._collection(collection)
        objects = state.objects
        if not namespace:
            return StoreSnapshot([objects[address] for address in state.order], self.version)
        span = _span(state.order, namespace)
        return StoreSnapshot([objects[address] for address in span], self.version)

    def list_at(self, collection: str, namespace: str, version: int) -> StoreSnapshot:
        """The collection as it was right after the commit of that version.

        It is the present with the log undone, newest commit first; CompactedError when the log
        does not reach back so far.
        """
        if version < self.compacted:
            raise CompactedError(version, self.compacted)
        state = self._collection(collection)
        # Nothing has changed since then, which is the usual case for pages of one list.
        if not state.log or state.log[-1].version <= version:
            return StoreSnapshot(self.list(collection, namespace).items, version)
        past: dict[str, tuple[Key, Stored | None]] = {}
        for commit in reversed(state.log):
            if commit.version <= version:
                break
            # The oldest commit after the version wins: it has the state at the version.
            past[_address(commit.key)] = (commit.key, commit.before)
        order = sorted({*state.order, *past})
        items: list[tuple[Key, Stored]] = []
        for address in _span(order, namespace):
            key, stored = past.get(address) or state.objects[address]
            if stored is not None:
                items.append((key, stored))
        return StoreSnapshot(items, version)

    def durable_objects(self) -> dict[str, StoreSnapshot]:
        """All objects as of the newest version on disk, by collection."""
        version = self.durable_version
        return {name: self.list_at(name, "", version) for name in sorted(self._collections)}

    # -- writing -----------------------------------------------------------------------------

    def commit(self, change: StoredChange) -> Commit:
        """Apply a change. The caller guarantees that `before` is the current state.

        NotDurableError when it would create an object and the disk has no room for one.
        ObjectTooLargeError, with nothing changed, when the object is over the limit and grows. One
        of an earlier release may be over it: its finalizers can still be removed.
        """
        if change.before is None and self._journal and self._journal.refuses_creations():
            raise NotDurableError(DISK_FULL)
        version = self.version + 1
        after = Stored.of(change.body, version) if change.body is not None else None
        if after is not None and len(after.raw) > OBJECT_BYTES_MAX:
            before_bytes = len(change.before.raw) if change.before else 0
            if len(after.raw) > before_bytes:
                raise ObjectTooLargeError(len(after.raw))
        commit = Commit(
            version=version,
            time=self._now(),
            actor=change.actor,
            verb=change.verb,
            collection=change.collection,
            key=change.key,
            before=change.before,
            after=after,
        )
        self.version = version
        state = self._collection(change.collection)
        state.put(_address(change.key), change.key, after)
        state.changed = version
        if change.before is not None:
            change.before.forget_decoded()
        state.log.append(commit)
        self._keep(commit)
        # Hooks run before any watcher can see the commit, so their state is never behind.
        for hook in self.on_commit:
            hook(commit)
        if self._journal is None:
            self.durable_version = version
            state.wake()
        else:
            self._journal.append(commit)
        return commit

    def load(self, collection: str, items: Iterable[tuple[Key, Stored]]) -> None:
        """Fill an empty collection from disk, without commits."""
        state = self._collection(collection)
        for key, stored in items:
            state.put(_address(key), key, stored)

    def compact(self, version: int) -> None:
        """Forget the commits up to a version; watches and lists from before it are refused."""
        self.compacted = max(self.compacted, min(version, self.durable_version))
        for state in self._collections.values():
            n_old = bisect_right(state.log, self.compacted, key=lambda commit: commit.version)
            if n_old:
                del state.log[:n_old]
                state.dropped += n_old
                state.wake()
        n_old = bisect_right(self._kept, self.compacted, key=lambda kept: kept[0])
        self._kept_bytes -= sum(n_bytes for _, n_bytes in self._kept[:n_old])
        del self._kept[:n_old]

    # -- following ---------------------------------------------------------------------------

    def follow(self, collection: str, version: int) -> Cursor:
        """A cursor on the commits after a version; CompactedError when the version is too old."""
        if version < self.compacted:
            raise CompactedError(version, self.compacted)
        state = self._collection(collection)
        at = bisect_right(state.log, version, key=lambda commit: commit.version)
        return Cursor(self, state, state.dropped + at)

    # -- the journal -------------------------------------------------------------------------

    def attach_journal(self, journal: Journal) -> None:
        """Write every commit from now on to a journal; it becomes visible when it is durable."""
        self._journal = journal

    async def wait_durable(self, version: int) -> None:
        """Return when a version is on disk; NotDurableError when it could not be written."""
        if version <= self.durable_version:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._durable_waiters.append((version, waiter))
        await waiter

    def mark_durable(self, version: int) -> None:
        """Called by the journal: everything up to a version is on disk."""
        before, self.durable_version = self.durable_version, version
        waiting, self._durable_waiters = self._durable_waiters, []
        for wanted, waiter in waiting:
            if wanted > version:
                self._durable_waiters.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        # Only collections with a commit of this group wake their watchers.
        for state in self._collections.values():
            if state.waiters and state.log and state.log[-1].version > before:
                state.wake()

    def roll_back(self, cause: Exception) -> None:
        """Called by the journal: nothing after the durable version will ever be on disk.

        No client has seen these commits, so removing them is invisible, and their versions can be
        used again: a restart would count on from the version on disk, too. Hooks get each commit
        once more, reversed, so that state they derived from commits stays true.
        """
        lost = [
            commit
            for state in self._collections.values()
            for commit in state.log
            if commit.version > self.durable_version
        ]
        for commit in sorted(lost, key=lambda commit: -commit.version):
            state = self._collection(commit.collection)
            state.put(_address(commit.key), commit.key, commit.before)
            state.log.pop()
            reverse = replace(commit, before=commit.after, after=commit.before, undone=True)
            for hook in self.on_commit:
                hook(reverse)
        self.version = self.durable_version
        while self._kept and self._kept[-1][0] > self.version:
            self._kept_bytes -= self._kept.pop()[1]
        waiting, self._durable_waiters = self._durable_waiters, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(NotDurableError(str(cause)))

    # -- inside ------------------------------------------------------------------------------

    def _collection(self, name: str) -> _Collection:
        state = self._collections.get(name)
        if state is None:
            state = self._collections[name] = _Collection()
        return state

    def _keep(self, commit: Commit) -> None:
        """Bound the log by number and by the memory that only it holds.

        That memory is the old states: the newest state of an object is in its collection, too.
        """
        n_bytes = len(commit.before.raw) if commit.before else 0
        self._kept.append((commit.version, n_bytes))
        self._kept_bytes += n_bytes
        if len(self._kept) > self._kept_commits_max or self._kept_bytes > self._kept_bytes_max:
            self.compact(self._kept[len(self._kept) // 2][0])


class Cursor:
    """A reader of one collection's log, at its own pace. The log never waits for it."""

    def __init__(self, storage: Storage, state: _Collection, position: int) -> None:
        self._storage = storage
        self._state = state
        self._position = position

    def take(self, n_max: int = 1_000) -> list[Commit]:
        """The next durable commits, possibly none; CompactedError when some were forgotten."""
        state = self._state
        start = self._position - state.dropped
        if start < 0:
            raise CompactedError(0, self._storage.compacted)
        commits = state.log[start : start + n_max]
        durable = self._storage.durable_version
        while commits and commits[-1].version > durable:  # these still wait for the disk
            commits.pop()
        self._position += len(commits)
        return commits

    @property
    def is_behind(self) -> bool:
        """Whether commits wait to be taken, durable or not."""
        return self._position < self._state.dropped + len(self._state.log)

    async def wait(self) -> None:
        """Return when there may be something to take. It may also return without cause."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._state.waiters[waiter] = None
        try:
            await waiter
        finally:
            # One that was woken is no longer there; one that was cancelled must not stay.
            self._state.waiters.pop(waiter, None)
