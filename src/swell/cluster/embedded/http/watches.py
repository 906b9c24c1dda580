"""Watches over HTTP: one line per event, until the client disconnects or the watch times out.

A watch reads the store's log at its client's pace; nothing is queued for it. A client that reads
nothing for a while is disconnected, so that it does not hold memory and a connection for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence

from aiohttp import web

from swell.api import codec
from swell.cluster.embedded.http import responses
from swell.cluster.embedded.http.responses import Representation, event_line
from swell.cluster.embedded.verbs.requests import StoredEvent
from swell.cluster.embedded.verbs.watching import FailedWatch, Watch
from swell.runtime.clock import Clock
from swell.runtime.cluster import EventType
from swell.runtime.errors import ClusterError

BOOKMARK_INTERVAL_S = 60.0  # as kube-apiserver sends them
STALL_S = 20.0  # a client that reads nothing for so long is gone or stuck
# The life of a watch without timeoutSeconds: kube-apiserver's, spread so that clients do not all
# come back at once.
LIFE_S = (1800.0, 3600.0)
BATCH_BYTES = 256 << 10


class Watches:
    """All watches being served, so that closing the server can end them."""

    def __init__(self, clock: Clock, rng: random.Random, stall_s: float = STALL_S) -> None:
        self._clock = clock
        self._rng = rng
        self.stall_s = stall_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

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
            if events:
                await self._write(stream, stream.lines(events))
                continue
            left_s = end - self._clock.monotonic()
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(min(left_s, BOOKMARK_INTERVAL_S)):
                    await stream.watch.wait()
            except TimeoutError:
                # No bookmark when the wait ended because the watch does.
                if stream.bookmarks and left_s > BOOKMARK_INTERVAL_S:
                    mark = StoredEvent(EventType.BOOKMARK, None, stream.watch.version)
                    await self._write(stream, stream.lines([mark]))

    async def _write(self, stream: _Stream, lines: Iterable[bytes]) -> None:
        """Send lines in batches; TimeoutError when the client does not read them."""
        batch: list[bytes] = []
        size = 0
        for line in lines:
            batch.append(line)
            size += len(line)
            if size >= BATCH_BYTES:
                await self._send(stream, b"".join(batch))
                batch, size = [], 0
        if batch:
            await self._send(stream, b"".join(batch))

    async def _send(self, stream: _Stream, batch: bytes) -> None:
        async with asyncio.timeout(self.stall_s):
            await stream.response.write(batch)


class _Stream:
    """One watch, its client, and the representation of its events."""

    def __init__(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        watch: Watch | FailedWatch,
        representation: Representation,
        bookmarks: bool,
    ) -> None:
        self.request = request
        self.response = response
        self.watch = watch
        self.bookmarks = bookmarks
        self._representation = representation
        self._first = True

    def lines(self, events: Iterable[StoredEvent]) -> Iterable[bytes]:
        for event in events:
            line = self._representation.event(event, first=self._first)
            self._first = False
            yield line
