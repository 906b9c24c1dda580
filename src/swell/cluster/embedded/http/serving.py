"""Runs the embedded API server over HTTPS on one state folder, until a signal stops it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.hdrs import METH_ALL
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from swell.cluster import home
from swell.cluster.embedded import refusals
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.controllers.assembly import BuiltinControllerSettings
from swell.cluster.embedded.durable import DurableStorage, ExpectedStore, expected_store
from swell.cluster.embedded.http import credentials, responses
from swell.cluster.embedded.http.audit import AuditLog
from swell.cluster.embedded.http.connections import (
    Connections,
    HandleRequest,
    raise_descriptor_limit,
)
from swell.cluster.embedded.http.gate import Gate
from swell.cluster.embedded.http.handler import Handler
from swell.cluster.embedded.http.logs import LogSource, NodeLogs, NoLogs
from swell.cluster.embedded.http.metrics import ServerMetrics
from swell.cluster.embedded.http.node_agents import NodeAgents
from swell.cluster.embedded.http.node_commands import NodeCommands
from swell.cluster.embedded.http.resources import Resources
from swell.cluster.embedded.http.rotation import CertificateFile, OpenRequests, following
from swell.cluster.embedded.http.streams import CommandSource
from swell.cluster.embedded.http.tokens import Tokens
from swell.cluster.embedded.http.watches import STALL_S, Watches
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.garbage import paced_collections
from swell.runtime.manager import Manager
from swell.runtime.watchdog import watch_loop

SHUTDOWN_S = 5.0  # for requests and controllers that are still running
HEADER_BYTES_MAX = 32 << 10
LINE_BYTES_MAX = 128 << 10  # a path with a selector of some thousand terms
# Of a body, before its connection waits for the request to read on: hundreds may wait for the room
# that large bodies share.
READ_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: its API, its port, and the kubeconfig to reach it."""

    api: ApiServer
    port: int
    kubeconfig: Path
    watches: Watches
    metrics: ServerMetrics


def serve(
    folder: Path,
    port: int | None = None,
    on_ready: Callable[[Served], None] | None = None,
    settings: BuiltinControllerSettings = BuiltinControllerSettings(),  # noqa: B008
    *,
    new: bool = False,
) -> None:
    """Serve a state folder in the foreground until SIGTERM or SIGINT.

    StoreMissingError when the folder has been used and its store is gone, unless `new` is said.
    """
    with home.hold_lock(folder):
        raise_descriptor_limit()
        expected = expected_store(folder, new=new)
        asyncio.run(_serve_until_stopped(folder, port, on_ready, settings, expected=expected))


async def _serve_until_stopped(
    folder: Path,
    port: int | None,
    on_ready: Callable[[Served], None] | None,
    settings: BuiltinControllerSettings,
    *,
    expected: ExpectedStore,
) -> None:
    """Run a durable server with its controllers. When one of them ends, all end."""
    clock, rng = SystemClock(), random.SystemRandom()
    durable = await DurableStorage.open(folder / home.DATABASE, clock.now, expected)
    try:
        api = new_api_server(durable.storage, clock, rng, settings.gates)
        manager = Manager(clock=clock, drain_s=SHUTDOWN_S)
        add_services(manager, api, rng, settings)
        agents = NodeAgents(api, credentials.Files(folder))
        agents.publish()
        async with listening(
            api,
            folder,
            clock=clock,
            rng=rng,
            port=port,
            logs=NodeLogs(agents),
            commands=NodeCommands(agents),
        ) as served:
            if on_ready is not None:
                on_ready(served)
            with watch_loop(served.metrics), paced_collections():
                await manager.run(handle_signals=True)
    finally:
        await durable.close()


_REQUEST_LINE = re.compile(rb"([A-Za-z]{1,32}) \S+ HTTP/1\.[01]\r\n")
_METHOD_OF_NONE = b"PROPFIND"


class _Protocol(RequestHandler):
    """A connection that answers methods it has never heard of as a real server does."""

    __slots__ = ("_accepted",)

    def __init__(self, server: _Server, connections: Connections, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._accepted = connections

    def data_received(self, data: bytes) -> None:
        if self._current_request is None:
            self._accepted.received(self)
            data = _readable(data)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._accepted.lost(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if isinstance(exc, BadHttpMethod):
            refused = refusals.path_method_not_allowed()
        elif isinstance(exc, HttpProcessingError):
            # The client's fault: a traceback for each would fill the log.
            refused = refusals.bad_request(f"malformed request: {str(exc.message)[:200]}")
        else:
            return super().handle_error(request, status, exc, message)
        # The rest of the request could not be read, so that the connection cannot be kept.
        response = responses.of_refusal(refused)
        response.force_close()
        return response


def _readable(data: bytes) -> bytes:
    """Bytes that begin with a request whose method is none, with one that no path has in its place.

    The parser refuses such a request and gives nothing of it. A real server reads its path and its
    token first: some documents are there for every method.
    """
    begun = _REQUEST_LINE.match(data)
    if begun is None or begun[1].decode() in METH_ALL:
        return data
    return _METHOD_OF_NONE + data[begun.end(1) :]


class _Server(web.Server):
    """A server of such connections."""

    def __init__(self, handle: HandleRequest, connections: Connections, **settings: Any) -> None:
        super().__init__(handle, **settings)
        self._accepted = connections

    def __call__(self) -> RequestHandler:
        return _Protocol(self, self._accepted, loop=self._loop, **self._kwargs)


@asynccontextmanager
async def listening(
    api: ApiServer,
    folder: Path,
    *,
    clock: Clock,
    rng: random.Random,
    port: int | None = None,
    logs: LogSource | None = None,
    commands: CommandSource | None = None,
    stall_s: float = STALL_S,
) -> AsyncIterator[Served]:
    """Serve an API server over HTTPS. The kubeconfig is written when this is entered."""
    files = credentials.Files(folder)
    tokens = Tokens(files, clock.now)
    api.reviews.authenticate = tokens.identity_of_token
    tls = credentials.server_tls(files)
    listener = credentials.listening_socket(files, port)
    bound = int(listener.getsockname()[1])
    watches = Watches(clock, rng, stall_s)
    connections = Connections(clock)
    metrics = ServerMetrics(api.storage, connections, watches)
    requests, audit = OpenRequests(), AuditLog(files.audit_log, clock.now)
    handler = Handler(
        api,
        Resources(api, watches, logs or NoLogs(), commands),
        Gate(tokens, api.access, audit, requests, connections.authenticated),
        bound,
        metrics=metrics,
    )
    server = _Server(
        connections.watching(handler.handle),
        connections,
        handler_cancellation=True,  # a quiet watch ends with its client, too
        access_log=None,
        max_field_size=HEADER_BYTES_MAX,
        max_line_size=LINE_BYTES_MAX,
        read_bufsize=READ_BYTES,
        keepalive_timeout=120.0,
        auto_decompress=False,  # a real server takes every body as it is
    )
    runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    publish = logs.agents.publish if isinstance(logs, NodeLogs) else _nothing
    certificate = CertificateFile(files, tls)
    async with (
        connections.accepting(listener, tls, server),
        following(clock, tokens, requests, certificate, publish),
    ):
        try:
            # Clients that find a kubeconfig may rely on the system's objects.
            await api.wait_durable(api.storage.version)
            credentials.write_kubeconfig(files, bound)
            yield Served(api, bound, files.kubeconfig, watches, metrics)
        finally:
            watches.close()
            await runner.cleanup()
            audit.close()


def _nothing() -> None:
    """Do nothing: no node agent has to trust this server's certificate."""
