"""Opens connections to one API server for asyncio, and closes all of them at the end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from swell.cluster.kube.answers import NotSentError
from swell.cluster.kube.policy import ServerAddress

C = TypeVar("C", bound="KubeConnection")


class KubeConnection(asyncio.Protocol):
    """One connection to a server. Its subclasses decide how answers are read from it."""

    def __init__(self) -> None:
        # `_transport` is written to. `_raw` is the TCP transport below TLS: pausing the TLS one
        # would not stop bytes from being received and piling up.
        self._transport: asyncio.Transport | None = None
        self._raw: asyncio.Transport | None = None
        self.is_gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream has one
        self._transport = self._raw = transport

    def secured(self, transport: asyncio.Transport) -> None:
        """Writes go through this TLS transport from now on."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_gone.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()  # nothing is left to be sent, so there is nothing to flush


class KubeEndpoint:
    """Opens connections to one address and remembers those that are open."""

    def __init__(self, address: ServerAddress, tls: ssl.SSLContext, *, connect_s: float) -> None:
        self._address = address
        self._tls = tls if address.is_secure else None
        self._connect_s = connect_s
        self._open: dict[KubeConnection, None] = {}

    async def connect(self, make: Callable[[], C]) -> C:
        """Returns a new connection; NotSentError when none could be made in time."""
        try:
            async with asyncio.timeout(self._connect_s):
                made = await self._connect(make)
        except (OSError, TimeoutError) as error:  # TLS failures are OSErrors as well
            raise NotSentError(f"{type(error).__name__} {error}") from error
        for gone in [known for known in self._open if known.is_gone.is_set()]:
            del self._open[gone]
        self._open[made] = None
        return made

    async def _connect(self, make: Callable[[], C]) -> C:
        loop = asyncio.get_running_loop()
        raw, made = await loop.create_connection(make, self._address.host, self._address.port)
        if self._tls is None:
            return made
        secure: asyncio.Transport | None = None
        try:
            # TLS by hand instead of create_connection(ssl=...), which hides the TCP transport.
            secure = await loop.start_tls(
                raw, made, self._tls, server_hostname=self._address.tls_name
            )
        finally:
            if secure is None:
                raw.abort()
                # After a failed start_tls the loop does not call the protocol any more.
                made.connection_lost(None)
        if secure is None:
            raise ConnectionError("the connection was closed at once")
        made.secured(secure)
        return made

    async def close(self) -> None:
        """Close all connections, those in use included, and wait until they are closed."""
        for connection in self._open:
            connection.close()
        for connection in self._open:
            await connection.is_gone.wait()
        self._open.clear()
