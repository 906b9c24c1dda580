"""The connections of a small HTTP server: how many may be silent, and for how long.

A connection is silent until a request on it comes from somebody who is known. Those are limited and
timed, so that whoever is not cannot use up the descriptors of the process, which may be those of a
whole embedded cluster, or of a controller that needs some for the API server. Browsers, probes and
collectors of metrics connect anew where their connection was closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from swell.runtime.clock import Clock

if TYPE_CHECKING:
    # Importing it is slow (ADR 14), and who serves has done so.
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

# A burst of so many clients is still served; the oldest connection beyond it is closed.
SILENT_MAX = 500
SILENT_S_MAX = 30.0
HANDSHAKE_S_MAX = 15.0
SWEEP_INTERVAL_S = 1.0


class SilentConnections:
    """All silent connections of one server, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.has_handshakes = False  # connections have no transport until TLS has begun
        self._silent: dict[RequestHandler, float] = {}  # since when

    def __len__(self) -> int:
        return len(self._silent)

    def accepting(self, server: web.Server) -> Callable[[], RequestHandler]:
        """Returns what makes the protocol of each connection that is accepted."""

        def accept() -> RequestHandler:
            self._push_out()
            protocol = server()
            self._silent[protocol] = self._clock.monotonic()
            return protocol

        return accept

    def known(self, request: web.BaseRequest) -> None:
        """Called when a request came from somebody who is known."""
        self._silent.pop(request.protocol, None)

    def heard(self, request: web.BaseRequest) -> None:
        """Called when a request came from anybody: its time begins anew."""
        if self._silent.pop(request.protocol, None) is not None:
            self._silent[request.protocol] = self._clock.monotonic()

    @asynccontextmanager
    async def sweeping(self) -> AsyncIterator[None]:
        """Close connections that have been silent for too long, while this is entered."""
        task = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_INTERVAL_S)
            now = self._clock.monotonic()
            for protocol, since in list(self._silent.items()):
                # One without a transport was closed by its client, or it is being accepted.
                is_there = protocol.transport is not None or self.has_handshakes
                if now - since > (SILENT_S_MAX if is_there else SWEEP_INTERVAL_S):
                    self._close(protocol)
            self._push_out()

    def _push_out(self) -> None:
        """Close the oldest connections beyond those that there may be.

        One that is being accepted, as in a burst, cannot be closed yet: the next sweep does it.
        """
        while len(self._silent) > SILENT_MAX:
            oldest = next((one for one in self._silent if one.transport is not None), None)
            if oldest is None:
                return
            self._close(oldest)

    def _close(self, protocol: RequestHandler) -> None:
        del self._silent[protocol]
        if protocol.transport is not None:
            protocol.transport.abort()


@asynccontextmanager
async def listening(
    runner: web.BaseRunner,
    connections: SilentConnections,
    host: str = "",
    port: int = 0,
    *,
    listener: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """Accept connections for a runner that is set up; yields the host and port.

    Either on a socket that listens already, or at an address.
    """
    if runner.server is None:
        raise RuntimeError("the server has not been set up")
    accept, loop = connections.accepting(runner.server), asyncio.get_running_loop()
    limit_s = HANDSHAKE_S_MAX if tls is not None else None
    connections.has_handshakes = tls is not None
    if listener is not None:
        server = await loop.create_server(
            accept, sock=listener, ssl=tls, ssl_handshake_timeout=limit_s
        )
    else:
        server = await loop.create_server(
            accept, host, port, ssl=tls, ssl_handshake_timeout=limit_s
        )
    async with connections.sweeping():
        try:
            bound = server.sockets[0].getsockname()
            yield str(bound[0]), int(bound[1])
        finally:
            server.close()
