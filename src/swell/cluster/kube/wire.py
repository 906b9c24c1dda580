"""Single calls: HTTP/1.1 over connections that are kept open, one call at a time on each.

Only what calls need, so that a call costs little: no redirects, no compression, no cookies, no
pipelining. It says whether a request was sent; what that means for a write is not decided here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from swell.cluster.kube.answers import Body, Head, take_head
from swell.cluster.kube.connection import Connection, LostError, Server, TooLargeError


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[bytes, bytes]  # names in small letters
    body: bytes


class _Caller(Connection):
    """One connection: a request goes out, an answer comes in."""

    def __init__(self, answer_bytes_max: int) -> None:
        super().__init__()
        self._max = answer_bytes_max
        self._waiter: asyncio.Future[Answer] | None = None
        self._reset()
        self.is_usable = True
        self.idle_since = 0.0

    def _reset(self) -> None:
        self._data = bytearray()
        self._head: Head | None = None
        self._body: Body | None = None
        self._parts: list[bytes] = []
        self._size = 0

    async def ask(self, request: bytes, within_s: float) -> Answer:
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
            self._body = Body(self._head)
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
            waiter.set_result(Answer(head.status, head.headers, body))
        if not self.is_usable:
            self.close()

    def _expire(self) -> None:
        self._fail(LostError("no answer came in time"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()


class Wire:
    """The connections to one server; as many as there are calls at the same time."""

    def __init__(
        self, server: Server, *, keep_alive_s: float, answer_s: float, answer_bytes_max: int
    ) -> None:
        self._server = server
        self._answer_s = answer_s
        self._keep_alive_s = keep_alive_s
        self._answer_bytes_max = answer_bytes_max
        self._idle: deque[_Caller] = deque()

    async def call(self, method: str, path: str, headers: bytes, body: bytes | None) -> Answer:
        """Send one request and wait for its answer; `headers` are whole lines."""
        connection = self._kept() or await self._server.connect(self._caller)
        try:
            request = self._server.request(method, path, headers, body)
            return await connection.ask(request, self._answer_s)
        finally:
            if connection.is_usable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)

    def _caller(self) -> _Caller:
        return _Caller(self._answer_bytes_max)

    def _kept(self) -> _Caller | None:
        """The connection used last, unless the server may be about to close it."""
        oldest = asyncio.get_running_loop().time() - self._keep_alive_s
        while self._idle and (not self._idle[0].is_usable or self._idle[0].idle_since < oldest):
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None
