"""Connections to an API server for single calls: HTTP/1.1, kept open, one call at a time on each.

Only what calls need, so that a call costs little: no redirects, no compression, no cookies, no
pipelining. It says whether a request was sent; what that means for a write is not decided here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_HEAD_BYTES_MAX: Final = 64 << 10
_LINE_BYTES_MAX: Final = 1024
_CRLF: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_INFORMATIONAL_MAX = 199
_NO_CONTENT: Final = frozenset({204, 304})
# Reading is paused for nobody: what comes is bounded by the size of one answer.
_UNTIL_CLOSED = -1
_CHUNKED = -2


class NotSentError(Exception):
    """No connection could be made: the server has not seen the request."""


class LostError(Exception):
    """The request was sent, or may have been, and no whole answer came."""


class TooLargeError(Exception):
    """The answer is larger than anybody wants to read."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[bytes, bytes]  # names in small letters
    body: bytes


class _Connection(asyncio.Protocol):
    """One connection: a request goes out, an answer comes in."""

    def __init__(self, answer_bytes_max: int, open_ones: dict[_Connection, None]) -> None:
        self._max = answer_bytes_max
        self._open_ones = open_ones
        self._transport: asyncio.WriteTransport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._reset()
        self.is_usable = True
        self.idle_since = 0.0
        self.is_gone = asyncio.Event()

    def _reset(self) -> None:
        self._data = bytearray()
        self._head: Answer | None = None
        self._length = 0  # of the body, or one of the words above
        self._parts: list[bytes] = []
        self._size = 0

    async def ask(self, request: bytes) -> Answer:
        if self._transport is None or not self.is_usable:
            raise LostError("the connection is closed")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            if not self._waiter.done() or self._waiter.cancelled():
                self.close()  # whatever comes now would be taken for the next answer
            self._waiter = None

    def close(self) -> None:
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()  # there is nothing left to be sent

    # --- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - a stream has one
        self._transport = transport
        self._open_ones[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        if self._head is not None and self._length == _UNTIL_CLOSED and exc is None:
            self._finish(bytes(self._data))
        else:
            self._fail(LostError(f"the connection was lost: {exc or 'closed by the server'}"))
        self._open_ones.pop(self, None)
        self.is_gone.set()

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # nobody asked
            return
        self._data += data
        try:
            self._read()
        except (ValueError, IndexError) as error:
            self._fail(LostError(f"the answer is not HTTP: {error}"))

    def _read(self) -> None:
        if self._head is None and not self._read_head():
            return
        if self._length == _CHUNKED:
            self._read_chunks()
        elif self._length == _UNTIL_CLOSED:
            self._check_size(len(self._data))
        elif len(self._data) >= self._length:
            self._finish(bytes(self._data[: self._length]))

    def _read_head(self) -> bool:
        """Whether the head of the answer has come; sets how long its body is."""
        while True:
            end = self._data.find(_HEAD_END)
            if end < 0:
                if len(self._data) > _HEAD_BYTES_MAX:
                    raise ValueError("a head without end")
                return False
            lines = bytes(self._data[:end]).split(_CRLF)
            del self._data[: end + len(_HEAD_END)]
            version, code, *_ = lines[0].split(b" ", 2)
            if version not in {b"HTTP/1.1", b"HTTP/1.0"}:
                raise ValueError("an unknown version")
            status = int(code)
            if status > _INFORMATIONAL_MAX:
                break
        headers: dict[bytes, bytes] = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        self._head = Answer(status, headers, b"")
        if version == b"HTTP/1.0" or headers.get(b"connection", b"").lower() == b"close":
            self.is_usable = False
        self._length = _length_of(self._head)
        self._check_size(max(self._length, 0))
        return True

    def _read_chunks(self) -> None:
        """Takes whole chunks off the data; an empty one is the last."""
        data, at = self._data, 0
        while (end := data.find(_CRLF, at, at + _LINE_BYTES_MAX)) >= 0:
            size, start = int(bytes(data[at:end]).partition(b";")[0], 16), end + 2
            if size == 0:
                if data.find(_HEAD_END, end) < 0:  # behind it may come what is called a trailer
                    break
                self._finish(b"".join(self._parts))
                return
            self._check_size(self._size + size)
            if len(data) < start + size + 2:
                break
            self._parts.append(bytes(data[start : start + size]))
            self._size += size
            at = start + size + 2
        if end < 0 and len(data) - at >= _LINE_BYTES_MAX:
            raise ValueError("a chunk without a size")
        del data[:at]

    def _check_size(self, size: int) -> None:
        if size > self._max:
            self._fail(TooLargeError(f"an answer of more than {self._max} bytes"))

    def _finish(self, body: bytes) -> None:
        head, waiter = self._head, self._waiter
        self._reset()
        if head is not None and waiter is not None and not waiter.done():
            waiter.set_result(Answer(head.status, head.headers, body))
        if not self.is_usable:
            self.close()

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()


class Wire:
    """The connections to one server; as many as there are calls at the same time."""

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext,
        *,
        server_name: str = "",
        connect_s: float,
        keep_alive_s: float,
        answer_bytes_max: int,
    ) -> None:
        place = urlsplit(server)
        self._host = place.hostname or ""
        self._port = place.port or (443 if place.scheme == "https" else 80)
        self._prefix = place.path.rstrip("/").encode()
        self._name = place.netloc.rpartition("@")[2].encode()
        self._tls = tls if place.scheme == "https" else None
        self._server_name = (server_name or self._host) if self._tls else None
        self._connect_s = connect_s
        self._keep_alive_s = keep_alive_s
        self._answer_bytes_max = answer_bytes_max
        self._idle: deque[_Connection] = deque()
        self._open: dict[_Connection, None] = {}  # until the loop has seen them closed

    async def call(self, method: str, path: str, headers: bytes, body: bytes | None) -> Answer:
        """Send one request and wait for its answer; `headers` are whole lines."""
        connection = self._kept() or await self._connect()
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        request = b"%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: swell\r\n%s%s\r\n%s" % (
            method.encode(),
            self._prefix,
            path.encode(),
            self._name,
            headers,
            length,
            body or b"",
        )
        try:
            answer = await connection.ask(request)
        finally:
            if connection.is_usable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)
        return answer

    async def close(self) -> None:
        """Close all connections, those of calls under way included, and see them closed."""
        self._idle.clear()
        for connection in list(self._open):
            connection.close()
            await connection.is_gone.wait()

    def _kept(self) -> _Connection | None:
        """The connection used last, unless the server may be about to close it."""
        oldest = asyncio.get_running_loop().time() - self._keep_alive_s
        while self._idle and (not self._idle[0].is_usable or self._idle[0].idle_since < oldest):
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def _connect(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._answer_bytes_max, self._open),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
        except (OSError, TimeoutError) as error:  # what TLS objects to is an OSError as well
            raise NotSentError(f"{type(error).__name__} {error}") from error
        return connection


def _length_of(head: Answer) -> int:
    if head.status in _NO_CONTENT:
        return 0
    if head.headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return _CHUNKED
    length = head.headers.get(b"content-length")
    if length is None:
        return _UNTIL_CLOSED
    if not length.isdigit():
        raise ValueError("a length that is no number")
    return int(length)
