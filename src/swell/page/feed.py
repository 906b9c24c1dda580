"""Follows the objects that one user may see, and hands changes to that user's open pages.

Informers keep the rows current; a change costs one row, whatever the size of the cluster. Rows that
change within SETTLE_S are encoded once, for all pages. A page that does not read is not waited for:
when too much is waiting for it, it gets all rows anew as soon as it reads again. All rows are made
once for all pages that open: later ones get them as they were, and the changes since then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from swell.api.codec import encode
from swell.api.kinds import AI_TRAINING_JOBS, HYPER_NODES, NODES, QUEUES, TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.page.packing import PACKED_PODS, NodePacking, PackedPod
from swell.page.rows import domain_row, job_row, node_row, queue_row
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import ForbiddenError, NotFoundError
from swell.runtime.informer import Informer

# Changes that come within this time are sent together.
SETTLE_S = 0.1
# A page that reads so slowly that this much waits for it gets all rows anew instead.
WAITING_BYTES_MAX = 4 << 20
# Changes since all rows were made are kept up to this, or to the length of the rows.
SNAPSHOT_BYTES_MIN = 64 << 10
# Pages that one user has open; each takes memory, and its share of every change.
STREAMS_MAX = 100
# An answer with all rows is given again for so long, to whoever asks over and over.
STATE_S = 1.0


class CrowdedError(Exception):
    """One user has asked for more at a time than there is for one; the text is for the user."""


@dataclass(frozen=True, slots=True)
class FollowedKind:
    """A kind of object that pages show, and the row of one."""

    name: str  # in the answers
    resource: Resource[Any]
    row: Callable[[Any], Body]


_NODES = NODES.plural
KINDS = (
    FollowedKind("aitrainingjobs", AI_TRAINING_JOBS, job_row),
    FollowedKind("trainingjobs", TRAINING_JOBS, job_row),
    FollowedKind("queues", QUEUES, queue_row),
    FollowedKind(_NODES, NODES, node_row),
    FollowedKind("hypernodes", HYPER_NODES, domain_row),
)


def event_bytes(name: str, value: object) -> bytes:
    """Returns a server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + encode(value) + b"\n\n"


@dataclass(eq=False, slots=True)
class PageStream:
    """The events that one open page has not been sent."""

    events: deque[bytes] = field(default_factory=deque)
    n_bytes: int = 0
    is_behind: bool = True  # all rows come first
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, event: bytes) -> None:
        if not self.is_behind:
            self.events.append(event)
            self.n_bytes += len(event)
            if self.n_bytes > WAITING_BYTES_MAX:
                self.drop()
        self.changed.set()

    def drop(self) -> None:
        self.events.clear()
        self.n_bytes, self.is_behind = 0, True

    def take(self) -> bytes:
        """Returns all that waits."""
        found = b"".join(self.events)
        self.events.clear()
        self.n_bytes = 0
        self.changed.clear()
        return found


class ObjectFeed:
    """Rows of everything that one user may see. `run` keeps them current until cancelled."""

    def __init__(
        self, cluster: Cluster, namespaces: Iterable[str], *, clock: Clock, random: Random
    ) -> None:
        self._cluster, self._clock, self._random = cluster, clock, random
        self._namespaces = tuple(namespaces) or ("",)
        self._informers: dict[str, list[Informer[Any]]] = {kind.name: [] for kind in KINDS}
        self._rows = {kind.name: kind.row for kind in KINDS}
        self._streams: set[PageStream] = set()
        self._snapshot = b""  # the event with all rows, as they were
        self._since: list[bytes] = []  # the events since then
        self._n_since = 0
        self._state, self._state_until = b"", 0.0
        self._changes: dict[tuple[str, Key], None] = {}
        self._noted = asyncio.Event()
        self._packing: NodePacking | None = None  # None for a user who may not list all pods
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Follow what may be listed; what may not be is not shown."""
        for kind in KINDS:
            for namespace in self._namespaces if kind.resource.namespaced else ("",):
                if await self._may_list(kind.resource, namespace):
                    self._informers[kind.name].append(self._informer(kind, namespace))
        every = [one for some in self._informers.values() for one in some]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_changes())
            for informer in every:
                tasks.create_task(informer.run())
            for informer in every:
                await informer.wait_synced()
            self.ready.set()
            # Pods are the largest list; views are shown before it is in.
            if self._namespaces == ("",) and await self._may_list(PACKED_PODS, ""):
                tasks.create_task(self._pods().run())

    async def _may_list(self, resource: Resource[Any], namespace: str) -> bool:
        try:
            await self._cluster.list(resource, Selection(namespace), limit=1)
        except (ForbiddenError, NotFoundError):
            return False
        return True

    def _informer(self, kind: FollowedKind, namespace: str) -> Informer[Any]:
        informer: Informer[Any] = Informer(
            self._cluster,
            kind.resource,
            clock=self._clock,
            random=self._random,
            selection=Selection(namespace),
        )
        informer.add_handler(lambda key: self._note(kind.name, key))
        return informer

    def _pods(self) -> Informer[PackedPod]:
        packing = self._packing = NodePacking()
        informer = Informer(self._cluster, PACKED_PODS, clock=self._clock, random=self._random)

        def note(key: Key) -> None:
            for node in packing.put(key, informer.get(key)):
                self._note(_NODES, Key("", node))

        informer.add_handler(note)
        return informer

    # -- changes -----------------------------------------------------------------------------

    def _note(self, kind: str, key: Key) -> None:
        if self._streams:
            self._changes[kind, key] = None
            self._noted.set()

    async def _send_changes(self) -> None:
        while True:
            await self._noted.wait()
            await self._clock.sleep(SETTLE_S)
            self._noted.clear()
            changes, self._changes = self._changes, {}
            if self._snapshot or any(not stream.is_behind for stream in self._streams):
                event = event_bytes("changes", [self._change(*one) for one in changes])
            else:
                event = b""
            self._keep_since(event)
            for stream in self._streams:
                stream.add(event)

    def _keep_since(self, event: bytes) -> None:
        """Add an event to the snapshot, or drop that when the events are as long as it is."""
        if self._snapshot:
            self._since.append(event)
            self._n_since += len(event)
            if self._n_since > max(len(self._snapshot), SNAPSHOT_BYTES_MIN):
                self._drop_snapshot()

    def _drop_snapshot(self) -> None:
        self._snapshot, self._since, self._n_since = b"", [], 0

    def _all_rows(self) -> bytes:
        """The events by which a page gets all rows."""
        if not self._snapshot:
            self._drop_snapshot()
            self._snapshot = event_bytes("state", self.rows())
        return b"".join([self._snapshot, *self._since])

    def _change(self, kind: str, key: Key) -> Body:
        held = self.get(kind, key)
        row = self._row(kind, held) if held is not None else None
        return {"kind": kind, "namespace": key.namespace, "name": key.name, "row": row}

    def open_stream(self) -> PageStream:
        if len(self._streams) >= STREAMS_MAX:
            raise CrowdedError("too many pages are open; close some of them")
        stream = PageStream()
        self._streams.add(stream)
        return stream

    def close_stream(self, stream: PageStream) -> None:
        self._streams.discard(stream)
        if not self._streams:  # changes are noted for pages alone
            self._drop_snapshot()

    async def next_events(self, stream: PageStream, within_s: float) -> bytes:
        """Wait for what a page is to be sent next, up to a time; nothing if there was nothing."""
        if stream.is_behind:
            stream.take()
            stream.is_behind = False
            return self._all_rows()
        try:
            async with asyncio.timeout(within_s):
                await stream.changed.wait()
        except TimeoutError:
            return b""
        return await self.next_events(stream, within_s) if stream.is_behind else stream.take()

    # -- reading -----------------------------------------------------------------------------

    def get(self, kind: str, key: Key) -> Any:
        """The object under a key, if this user may see it."""
        found = (one.get(key) for one in self._informers.get(kind, ()))
        return next((one for one in found if one is not None), None)

    def state(self) -> bytes:
        """All rows as JSON, at most STATE_S old."""
        now = self._clock.monotonic()
        if not self._state or now >= self._state_until:
            self._state, self._state_until = encode(self.rows()), now + STATE_S
        return self._state

    def rows(self) -> dict[str, list[Body]]:
        """All rows, by kind."""
        return {
            name: [self._row(name, held) for one in informers for held in one.all()]
            for name, informers in self._informers.items()
        }

    def _row(self, kind: str, held: Any) -> Body:
        row = self._rows[kind](held)
        if kind == _NODES and self._packing is not None:
            row["used"] = self._packing.used(row["name"])
        return row
