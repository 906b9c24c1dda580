"""Connections to one API server: how they are made, and that none of them is left open."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

C = TypeVar("C", bound="KubeConnection")


class NotSentError(Exception):
    """No connection could be made: the server has not seen the request."""


class LostError(Exception):
    """The request was sent, or may have been, and no whole answer came."""


class TooLargeError(Exception):
    """The answer is larger than anybody wants to read."""


class KubeConnection(asyncio.Protocol):
    """One connection to a server. What is read from it is up to its kinds."""

    def __init__(self) -> None:
        # What is written to, and what lies below it if that is encrypted: only there can reading
        # be held up for good.
        self._transport: asyncio.Transport | None = None
        self._raw: asyncio.Transport | None = None
        self.is_gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream has one
        self._transport = self._raw = transport

    def secured(self, transport: asyncio.Transport) -> None:
        """What is written from now on is encrypted."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_gone.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()  # there is nothing left to be sent


class KubeEndpoint:
    """Where connections are made to."""

    def __init__(
        self, url: str, tls: ssl.SSLContext, *, server_name: str = "", connect_s: float
    ) -> None:
        place = urlsplit(url)
        self._host = place.hostname or ""
        self._port = place.port or (443 if place.scheme == "https" else 80)
        self._prefix = place.path.rstrip("/").encode()
        self._name = place.netloc.rpartition("@")[2].encode()
        self._tls = tls if place.scheme == "https" else None
        self._server_name = (server_name or self._host) if self._tls else None
        self._connect_s = connect_s
        self._made: dict[KubeConnection, None] = {}

    async def connect(self, kind: Callable[[], C]) -> C:
        """A new connection."""
        try:
            async with asyncio.timeout(self._connect_s):
                made = await self._connect(kind)
        except (OSError, TimeoutError) as error:  # what TLS objects to is an OSError as well
            raise NotSentError(f"{type(error).__name__} {error}") from error
        for gone in [known for known in self._made if known.is_gone.is_set()]:
            del self._made[gone]
        self._made[made] = None
        return made

    async def _connect(self, kind: Callable[[], C]) -> C:
        loop = asyncio.get_running_loop()
        raw, made = await loop.create_connection(kind, self._host, self._port)
        if self._tls is None:
            return made
        secure: asyncio.Transport | None = None
        try:
            secure = await loop.start_tls(raw, made, self._tls, server_hostname=self._server_name)
        finally:
            if secure is None:
                raw.abort()
                made.connection_lost(None)  # nobody else tells it any more
        if secure is None:
            raise ConnectionError("the connection was closed at once")
        made.secured(secure)
        return made

    async def close(self) -> None:
        """Close all connections, those in use included, and see them closed."""
        for connection in self._made:
            connection.close()
        for connection in self._made:
            await connection.is_gone.wait()
        self._made.clear()

    def request(self, method: str, path: str, headers: bytes, body: bytes | None) -> bytes:
        """A request as it is sent; `headers` are whole lines."""
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        return b"%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: swell\r\n%s%s\r\n%s" % (
            method.encode(),
            self._prefix,
            path.encode(),
            self._name,
            headers,
            length,
            body or b"",
        )
