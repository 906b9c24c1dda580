"""Takes the reports that training programs send, where a policy forbids to ask them.

A pod shows its token of the audience `swell`, and the API server says which pod that is. A report
is then kept as if that pod had been asked. The token opens nothing else, to nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swell.api.injection import REPORT_AUDIENCE, REPORT_PATH
from swell.api.report import REPORT_BYTES_MAX
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.connections import SilentConnections, listening
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError
from swell.runtime.reviews import ReviewedPod, token_pod

if TYPE_CHECKING:
    from aiohttp import web

# Keeps a report of a pod; False for a pod that has no report to give.
TakeReport = Callable[[ReviewedPod, bytes], bool]

# A program sends every ten seconds: most of its reports cost no review, and a deleted pod is soon
# out.
_VALID_S = 60.0
# The leaders of as many jobs as one operator has; guessed tokens cannot fill the memory.
_PODS_MAX = 4096
# Guessed tokens must not become a load on the API server.
_REVIEWS_AT_ONCE = 2
# One pod's reports are kept no more often than this: each may cost a look at its job.
PACE_S = 5.0
_OF_A_POD = frozenset({200, 404, 429})
_REASONS = {
    200: "kept\n",
    401: f"a report needs a token of the audience {REPORT_AUDIENCE} that is bound to a pod\n",
    404: "no job that reports has this pod, or this is no report\n",
    429: f"a report is kept every {PACE_S:g} s\n",
    503: "no operator leads here, or the API server could not be asked; try again\n",
}


@dataclass(slots=True)
class _KnownPod:
    """The pod of a token, until when that holds, and when it may send its next report."""

    pod: ReviewedPod | None
    until: float
    next_at: float = 0.0


@dataclass(slots=True)
class ReportInbox:
    """The endpoint, and the operators of this process that lead."""

    cluster: Cluster
    clock: Clock
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    _connections: SilentConnections | None = None
    _takers: list[TakeReport] = field(default_factory=list)
    _known: OrderedDict[bytes, _KnownPod] = field(default_factory=OrderedDict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_REVIEWS_AT_ONCE))

    @contextmanager
    def open_to(self, taker: TakeReport) -> Iterator[None]:
        """Give reports to an operator while it leads."""
        self._takers.append(taker)
        try:
            yield
        finally:
            self._takers.remove(taker)

    async def take(self, headers: Mapping[str, str], raw: bytes) -> int:
        """Take a report; returns the HTTP status of the answer."""
        if not self._takers:
            return 503
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return 401
        try:
            known = await self._review(token.strip())
        except (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError):
            return 503
        now = self.clock.monotonic()
        if known.pod is None:
            return 401
        if now < known.next_at:
            return 429
        known.next_at = now + PACE_S
        return 200 if any(take(known.pod, raw) for take in self._takers) else 404

    async def _review(self, token: str) -> _KnownPod:
        """The pod of a token. It is kept by the token's digest, never by the token itself."""
        digest = hashlib.sha256(token.encode()).digest()
        held = self._known.get(digest)
        if held is not None and self.clock.monotonic() < held.until:
            return held
        async with self._turns:
            pod = await token_pod(self.cluster, token, REPORT_AUDIENCE)
        known = _KnownPod(pod, self.clock.monotonic() + _VALID_S, held.next_at if held else 0.0)
        self._known[digest] = known
        while len(self._known) > _PODS_MAX:
            self._known.popitem(last=False)
        return known

    async def run(self) -> None:
        """Serve until cancelled. Importing aiohttp is slow, so that only this does it."""
        from aiohttp import web

        app = web.Application(client_max_size=REPORT_BYTES_MAX)
        app.router.add_post(REPORT_PATH, self._post)
        # Bodies are taken as they are: programs compress none, and nobody is known before one is.
        runner = web.AppRunner(app, access_log=None, auto_decompress=False)
        await runner.setup()
        connections = self._connections = SilentConnections(SystemClock())
        try:
            async with listening(runner, connections, self.host, self.port, tls=self.tls) as (
                _,
                self.port,
            ):
                self.serving.set()
                await asyncio.get_running_loop().create_future()  # until cancelled
        finally:
            await runner.cleanup()

    async def _post(self, request: web.Request) -> web.Response:
        from aiohttp import web

        status = await self.take(request.headers, await request.read())
        if status in _OF_A_POD and self._connections is not None:
            self._connections.heard(request)
        return web.Response(status=status, text=_REASONS[status])
