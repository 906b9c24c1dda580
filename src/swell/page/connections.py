"""The connections of the page: how many may be silent, and for how long.

A connection is silent until a request on it comes from somebody who is logged in. Those are limited
and timed, so that whoever is not cannot use up the descriptors of the process, which may be those
of a whole embedded cluster. That the page is asked for anew by a browser whose connection was
closed is what browsers do anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from swell.runtime.clock import Clock

# A burst of so many browsers is still served; the oldest connection beyond it is closed.
SILENT_MAX = 500
SILENT_S_MAX = 30.0
SWEEP_INTERVAL_S = 1.0


class PageConnections:
    """All silent connections of one page, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
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
        """Called when a request came from somebody who is logged in."""
        self._silent.pop(request.protocol, None)

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
                is_there = protocol.transport is not None
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
