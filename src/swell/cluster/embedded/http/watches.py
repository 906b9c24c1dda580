"""Watches over HTTP: one line per event, until the client disconnects or the watch times out.

A watch reads the store's log at its client's pace; nothing is queued for it. A client that reads
nothing for a while is disconnected, so that it does not hold memory and a connection for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aiohttp import web

from swell.api import codec
from swell.cluster.embedded.http import responses
from swell.cluster.embedded.http.responses import Representation, event_line
from swell.cluster.embedded.http.routing import Form
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.verbs.requests import StoredEvent
from swell.cluster.embedded.verbs.watching import FailedWatch, Watch
from swell.runtime.clock import Clock
from swell.runtime.cluster import EventType
from swell.runtime.errors import ClusterError

BOOKMARK_INTERVAL_S = 60.0  # as kube-apiserver sends them
LAST_BOOKMARK_S = 2.0  # before the end of a watch, as kube-apiserver sends it
STALL_S = 20.0  # a client that reads nothing for so long is gone or stuck
# The life of a watch without timeoutSeconds: kube-apiserver's, spread so that clients do not all
# come back at once.
LIFE_S = (1800.0, 3600.0)
BATCH_BYTES = 256 << 10
# Encoded events that other watches may send, too: they read the log at nearly the same pace.
SHARED_LINES_MAX = 256
SHARED_BYTES_MAX = 4 << 20


class Watches:
    """All watches being served, so that closing the server can end them."""

    def __init__(self, clock: Clock, rng: random.Random, stall_s: float = STALL_S) -> None:
        self._clock = clock
        self._rng = rng
        self.stall_s = stall_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._shared = SharedLines()

    def __len__(self) -> int:
        return len(self._tasks)

    def close(self) -> None:
        """End every watch. Clients start new ones on the next server."""
        self._closing = True
        for task in list(self._tasks):
            task.cancel()

    async def serve(
        self,
        request: web.BaseRequest,
        watch: Watch | FailedWatch,
        representation: Representation,
        *,
        timeout_s: int | None,
        bookmarks: bool,
        warnings: Sequence[str] = (),
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=responses.headers(warnings))
        response.enable_chunked_encoding()
        life_s = float(timeout_s) if timeout_s else self._rng.uniform(*LIFE_S)
        stream = _Stream(request, response, watch, representation, bookmarks)
        # A task of its own, so that `close` can end the watch without cancelling the handler.
        task = asyncio.ensure_future(self._run(stream, self._clock.monotonic() + life_s))
        self._tasks.add(task)
        try:
            await task
        except asyncio.CancelledError:
            if not self._closing:  # the handler was cancelled: its client has disconnected
                task.cancel()
                raise
        finally:
            self._tasks.discard(task)
        return response

    async def _run(self, stream: _Stream, end: float) -> None:
        try:
            await stream.response.prepare(stream.request)
            await self._pump(stream, end)
            await stream.response.write_eof()
        except TimeoutError:
            # The client reads nothing, so an orderly end would wait for it, too.
            if stream.request.transport is not None:
                stream.request.transport.abort()
        except ConnectionError:
            return  # the client disconnected, which is how most watches end

    async def _pump(self, stream: _Stream, end: float) -> None:
        """Send events until the end, and bookmarks in quiet minutes to a client that wants them."""
        while not self._closing:
            try:
                events = stream.watch.poll()
            except ClusterError as error:
                status = codec.encode(responses.status_body(error.status))
                await self._write(stream, [event_line("ERROR", status)])
                return
            if events and stream.representation.form is Form.PARTIAL_LIST:
                return  # an event holds no list; a real server notices that no sooner
            if events:
                await self._write(stream, self._lines(stream, events))
                continue
            left_s = end - self._clock.monotonic()
            if left_s <= 0:
                return
            quiet_s = stream.until_bookmark(left_s)
            try:
                async with asyncio.timeout(quiet_s):
                    await stream.watch.wait()
            except TimeoutError:
                if stream.is_marked(left_s - quiet_s):
                    mark = StoredEvent(EventType.BOOKMARK, None, stream.watch.version)
                    await self._write(stream, self._lines(stream, [mark]))

    def _lines(self, stream: _Stream, events: Iterable[StoredEvent]) -> Iterable[bytes]:
        # Whole seconds: the ages in a table have no finer unit, and watches share its lines.
        shown = replace(stream.representation, now=float(int(self._clock.now())))
        for event in events:
            parts = shown.shared_parts(event)
            if parts is not None:
                yield from parts
            else:
                yield self._shared.line(shown, event, first=stream.is_first)
            stream.is_first = False

    async def _write(self, stream: _Stream, lines: Iterable[bytes]) -> None:
        """Send lines, or parts of them, in batches; TimeoutError when the client reads nothing.

        A large part is sent by itself, so that the watches that share it make no copies.
        """
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if size + len(line) >= BATCH_BYTES:
                await self._send(stream, batch)
                await self._send(stream, [line])
                batch, size = [], 0
            else:
                batch.append(line)
                size += len(line)
        await self._send(stream, batch)

    async def _send(self, stream: _Stream, batch: list[bytes]) -> None:
        joined = batch[0] if len(batch) == 1 else b"".join(batch)
        await responses.write_in_slices(stream.response, joined, self.stall_s)


@dataclass(slots=True)
class _Stream:
    """One watch, its client, and the representation of its events."""

    request: web.BaseRequest
    response: web.StreamResponse
    watch: Watch | FailedWatch
    representation: Representation
    bookmarks: bool
    is_first: bool = True
    began: int = 0  # the version that the watch began with
    is_ending: bool = False  # the time of its last bookmark has come

    def __post_init__(self) -> None:
        self.began = self.watch.version

    def until_bookmark(self, left_s: float) -> float:
        """How long to wait for events: until a bookmark is due, or the watch ends."""
        if not self.bookmarks or self.is_ending or left_s <= LAST_BOOKMARK_S:
            return left_s
        return min(left_s - LAST_BOOKMARK_S, BOOKMARK_INTERVAL_S)

    def is_marked(self, left_s: float) -> bool:
        """Whether a bookmark is sent after a quiet wait; the last one if it says more."""
        if left_s <= 0:
            return False
        self.is_ending = left_s <= LAST_BOOKMARK_S
        return not self.is_ending or self.watch.version > self.began


class SharedLines:
    """The events that were encoded last, so that watches of one form encode each of them once.

    A commit has a version of its own, so that version, type and form tell one line from another.
    Kinds are told apart as objects, because a changed definition has new columns under the old
    name; a line keeps its kind alive, so that no other gets its identity.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[object, ...], tuple[ServedKind, bytes]] = OrderedDict()
        self._n_bytes = 0

    def line(self, shown: Representation, event: StoredEvent, *, first: bool) -> bytes:
        if event.stored is None:  # a bookmark, which belongs to one watch
            return shown.event(event, first=first)
        form = (shown.form, shown.include, shown.meta_version)
        dated = (shown.now, first) if shown.form is Form.TABLE else ()
        key = (id(shown.kind), event.version, event.type, form, dated, event.stored.version)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = shown.event(event, first=first)
        self._keep(key, shown.kind, line)
        return line

    def _keep(self, key: tuple[object, ...], kind: ServedKind, line: bytes) -> None:
        self._lines[key] = (kind, line)
        self._n_bytes += len(line)
        while len(self._lines) > SHARED_LINES_MAX or self._n_bytes > SHARED_BYTES_MAX:
            _, (_, oldest) = self._lines.popitem(last=False)
            self._n_bytes -= len(oldest)
