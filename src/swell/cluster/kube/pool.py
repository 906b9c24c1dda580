"""Single calls: HTTP/1.1 over connections that are kept open, one call at a time on each.

Only what calls need, so that a call costs little: no redirects, no compression, no cookies, no
pipelining. It says whether a request was sent; what that means for a write is not decided here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from swell.cluster.kube.answers import AnswerBody, AnswerHead, take_head
from swell.cluster.kube.connection import KubeConnection, KubeEndpoint, LostError, TooLargeError
from swell.runtime.errors import UnreachableError


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: dict[bytes, bytes]  # names in small letters
    body: bytes


class _PooledConnection(KubeConnection):
    """One connection: a request goes out, an answer comes in."""

    def __init__(self, answer_bytes_max: int) -> None:
        super().__init__()
        self._max = answer_bytes_max
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._reset()
        self.is_usable = True
        self.idle_since = 0.0

    def _reset(self) -> None:
        self._data = bytearray()
        self._head: AnswerHead | None = None
        self._body: AnswerBody | None = None
        self._parts: list[bytes] = []
        self._size = 0

    async def ask(self, request: bytes, within_s: float) -> HttpAnswer:
        if self._transport is None or not self.is_usable:
            raise LostError("the connection is closed")
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        limit = loop.call_later(within_s, self._expire)
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            limit.cancel()
            if not self._waiter.done() or self._waiter.cancelled():
                self.close()  # whatever comes now would be taken for the next answer
            self._waiter = None

    def close(self) -> None:
        self.is_usable = False
        super().close()

    # --- what the loop calls

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        if self._body is not None and self._body.ends_with_connection and exc is None:
            self._finish()
        else:
            self._fail(LostError(f"the connection was lost: {exc or 'closed by the server'}"))
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # nobody asked
            return
        self._data += data
        try:
            self._read()
        except ValueError as error:
            self._fail(LostError(f"the answer is not HTTP: {error}"))

    def _read(self) -> None:
        if self._body is None:
            self._head = take_head(self._data)
            if self._head is None:
                return
            self._body = AnswerBody(self._head)
            self.is_usable = not self._head.is_last
        self._parts.append(self._body.take(self._data))
        self._size += len(self._parts[-1])
        if self._size + self._body.n_left > self._max:
            self._fail(TooLargeError(f"an answer of more than {self._max} bytes"))
        elif self._body.is_over:
            self._finish()

    def _finish(self) -> None:
        head, waiter, body = self._head, self._waiter, b"".join(self._parts)
        self._reset()
        if head is not None and waiter is not None and not waiter.done():
            waiter.set_result(HttpAnswer(head.status, head.headers, body))
        if not self.is_usable:
            self.close()

    def _expire(self) -> None:
        self._fail(LostError("no answer came in time"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()


class ConnectionPool:
    """The connections to one server; as many as there are calls at the same time."""

    def __init__(
        self, server: KubeEndpoint, *, keep_alive_s: float, answer_s: float, answer_bytes_max: int
    ) -> None:
        self._server = server
        self._answer_s = answer_s
        self._keep_alive_s = keep_alive_s
        self._answer_bytes_max = answer_bytes_max
        self._idle: deque[_PooledConnection] = deque()

    async def call(self, method: str, path: str, headers: bytes, body: bytes | None) -> HttpAnswer:
        """Send one request and wait for its answer; `headers` are whole lines."""
        connection = self._kept() or await self._server.connect(self._caller)
        try:
            request = self._server.request(method, path, headers, body)
            return await connection.ask(request, self._answer_s)
        finally:
            if connection.is_usable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)

    def _caller(self) -> _PooledConnection:
        return _PooledConnection(self._answer_bytes_max)

    def _kept(self) -> _PooledConnection | None:
        """The connection used last, unless the server may be about to close it."""
        oldest = asyncio.get_running_loop().time() - self._keep_alive_s
        while self._idle and (not self._idle[0].is_usable or self._idle[0].idle_since < oldest):
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None


class CallSlots:
    """So many may be taken at a time; must be used inside a running loop."""

    def __init__(self, n_slots: int, patience_s: float) -> None:
        self._n_free = n_slots
        self._patience_s = patience_s
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

    async def take(self) -> None:
        """Wait for a slot, first come first served."""
        if self._n_free:
            self._n_free -= 1
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append((waiter, loop.time() + self._patience_s))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back()  # it was ours already
            raise

    def give_back(self) -> None:
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
