"""Single calls of the asynchronous client: connections kept open, one call at a time on each.

It supports only what calls need, so that a call costs little: no redirects, no compression, no
cookies, no pipelining (the measurements are in ADR 14). `CallSlots` bounds the calls at one time.
"""

from __future__ import annotations

import asyncio
from collections import deque

from swell.cluster.kube.answers import AnswerReader, HttpAnswer, LostError, TooLargeError
from swell.cluster.kube.connection import KubeConnection, KubeEndpoint
from swell.runtime.errors import UnreachableError


class ConnectionPool:
    """The connections to one server: as many as there are calls at the same time."""

    def __init__(
        self, endpoint: KubeEndpoint, *, keep_alive_s: float, answer_s: float, answer_bytes_max: int
    ) -> None:
        self._endpoint = endpoint
        self._answer_s = answer_s
        self._keep_alive_s = keep_alive_s
        self._answer_bytes_max = answer_bytes_max
        self._idle: deque[_PooledConnection] = deque()

    async def exchange(self, request: bytes) -> HttpAnswer:
        """Send one request and wait for its answer."""
        connection = self._take_idle() or await self._endpoint.connect(self._make)
        try:
            return await connection.exchange(request, self._answer_s)
        finally:
            if connection.is_usable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)

    def _make(self) -> _PooledConnection:
        return _PooledConnection(self._answer_bytes_max)

    def _take_idle(self) -> _PooledConnection | None:
        """Returns the connection that was used last, so that those not needed grow old.

        Old ones are closed: a request on a connection that the server closes at the same moment
        would be of unknown outcome.
        """
        oldest = asyncio.get_running_loop().time() - self._keep_alive_s
        while self._idle and (not self._idle[0].is_usable or self._idle[0].idle_since < oldest):
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None


class _PooledConnection(KubeConnection):
    """One connection: a request goes out, an answer comes in."""

    def __init__(self, answer_bytes_max: int) -> None:
        super().__init__()
        self._max = answer_bytes_max
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._reader = AnswerReader(answer_bytes_max)
        self.is_usable = True
        self.idle_since = 0.0

    async def exchange(self, request: bytes, within_s: float) -> HttpAnswer:
        if self._transport is None or not self.is_usable:
            raise LostError("the connection is closed")
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._reader = AnswerReader(self._max)
        limit = loop.call_later(within_s, self._expire)
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            limit.cancel()
            if not self._waiter.done() or self._waiter.cancelled():
                self.close()  # a late answer would be taken for that of the next call
            self._waiter = None

    def close(self) -> None:
        self.is_usable = False
        super().close()

    # --- callbacks of the event loop

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        if exc is None and self._reader.end():
            self._finish()
        else:
            self._fail(LostError(f"the connection was lost: {exc or 'closed by the server'}"))
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # no request is waiting for an answer
            return
        try:
            self._reader.feed(data)
        except (LostError, TooLargeError) as error:
            self._fail(error)
            return
        if self._reader.is_over:
            self._finish()

    def _finish(self) -> None:
        if self._waiter is None or self._waiter.done():
            return
        answer = self._reader.answer()
        self._waiter.set_result(answer)
        if answer.head.is_last:
            self.close()

    def _expire(self) -> None:
        self._fail(LostError("no answer came in time"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()


class CallSlots:
    """Bounds the calls under way; must be used inside a running loop.

    It is cheaper than a semaphore with a time-out for each call: calls end within a bounded time,
    and only then are the waiting ones checked for having waited too long.
    """

    def __init__(self, n_slots: int, patience_s: float) -> None:
        self._n_free = n_slots
        self._patience_s = patience_s
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

    async def take(self) -> None:
        """Wait for a slot, first come first served; UnreachableError after the patience."""
        if self._n_free:
            self._n_free -= 1
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append((waiter, loop.time() + self._patience_s))
        try:
            await waiter
        except asyncio.CancelledError:
            # The slot may have been handed over in the same turn of the loop as the cancellation.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back()
            raise

    def give_back(self) -> None:
        """Free a slot, or hand it to the first that waits and has not waited too long."""
        now = asyncio.get_running_loop().time()
        while self._waiting:
            waiter, until = self._waiting.popleft()
            if waiter.done():
                continue
            if until < now:
                waiter.set_exception(UnreachableError("too many calls are waiting for the server"))
                continue
            waiter.set_result(None)
            return
        self._n_free += 1
