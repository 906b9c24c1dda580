"""Named checks of whether this process is alive and ready, and the HTTP endpoints that serve them.

/livez fails when only a restart can help, /readyz when the process cannot do its work now. /healthz
is the older name of /livez, /metrics is for Prometheus. All are read-only and plain text. Health is
open to everybody, since a kubelet's probes carry no credentials; metrics name queues and jobs, so
they may be kept for those who have the right to get the path /metrics.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swell.runtime.clock import SystemClock
from swell.runtime.connections import SilentConnections, listening
from swell.runtime.manager import Bug, contain_call
from swell.runtime.metrics import CONTENT_TYPE, Metrics
from swell.runtime.reviews import PathAccess

if TYPE_CHECKING:
    from aiohttp import web

# A check returns what is wrong, or the empty text.
Check = Callable[[], str]

METRICS_PATH = "/metrics"
_REFUSALS = {
    401: "metrics need a bearer token that the API server accepts\n",
    403: f"the token's user may not get the path {METRICS_PATH}: bind a role that grants it\n",
    503: "the API server could not be asked about the token; try again\n",
}


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """The HTTP status and body that an endpoint answers with."""

    status: int
    text: str


@dataclass(slots=True)
class HealthChecks:
    """Checks by name, run in the order in which they were added."""

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)

    def livez(self, *, verbose: bool = False) -> HealthAnswer:
        return _answer("livez", self.live, verbose)

    def readyz(self, *, verbose: bool = False) -> HealthAnswer:
        """Run all checks: a process that is not alive is not ready either."""
        return _answer("readyz", {**self.live, **self.ready}, verbose)


def _answer(name: str, checks: Mapping[str, Check], verbose: bool) -> HealthAnswer:
    lines = []
    failed = False
    for check, ask in checks.items():
        wrong = contain_call(ask)
        if isinstance(wrong, Bug):
            wrong = repr(wrong.error)
        failed |= bool(wrong)
        lines.append(f"[-]{check} failed: {wrong}" if wrong else f"[+]{check} ok")
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    if failed:
        return HealthAnswer(503, "\n".join(lines) + "\n")
    return HealthAnswer(200, "\n".join(lines) + "\n" if verbose else "ok")


class Endpoints:
    """Serves health and metrics over HTTP until cancelled.

    aiohttp is imported only when this runs, because importing it is slow (ADR 14): it keeps the
    event loop for a tenth of a second, which a program may want for its first lists.
    """

    def __init__(
        self,
        health: HealthChecks,
        metrics: Metrics | None = None,
        *,
        host: str = "127.0.0.1",
        port: int,
        access: PathAccess | None = None,
        tls: ssl.SSLContext | None = None,
        begins_after_s: float = 0.0,
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._access = access
        self._tls = tls
        self._host = host
        self._port = port
        self._begins_after_s = begins_after_s
        self._connections = SilentConnections(SystemClock())
        # The port given, or a free one if that was 0. It is known once `serving` is set.
        self.port = 0
        self.serving = asyncio.Event()

    async def run(self) -> None:
        await asyncio.sleep(self._begins_after_s)
        from aiohttp import web

        app = web.Application(client_max_size=1024)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/healthz", self._livez)
        app.router.add_get("/readyz", self._readyz)
        if self._metrics:
            app.router.add_get(METRICS_PATH, self._exposition)
        runner = web.AppRunner(app, access_log=None, auto_decompress=False)
        await runner.setup()
        try:
            async with listening(
                runner, self._connections, self._host, self._port, tls=self._tls
            ) as (_, self.port):
                self.serving.set()
                await asyncio.get_running_loop().create_future()  # until cancelled
        finally:
            await runner.cleanup()

    async def _livez(self, request: web.Request) -> web.Response:
        self._connections.heard(request)
        return _response(self._health.livez(verbose="verbose" in request.query))

    async def _readyz(self, request: web.Request) -> web.Response:
        self._connections.heard(request)
        return _response(self._health.readyz(verbose="verbose" in request.query))

    async def _exposition(self, request: web.Request) -> web.Response:
        from aiohttp import web

        status = await self._access.status(request.headers) if self._access else 200
        if status != 200:
            return web.Response(status=status, text=_REFUSALS[status])
        self._connections.heard(request)
        body = self._metrics.exposition() if self._metrics else b""
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


def _response(answer: HealthAnswer) -> web.Response:
    from aiohttp import web

    return web.Response(status=answer.status, text=answer.text)
