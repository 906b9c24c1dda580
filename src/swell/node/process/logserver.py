"""Finds the logs of containers, and serves them and commands the way a kubelet does.

The server answers `GET /containerLogs/NAMESPACE/POD/CONTAINER` over TLS, and `/exec/...` as a
WebSocket. A client needs a certificate of the cluster's authority, or a token that the API server
accepts, and the right to read nodes/proxy; for commands, to create it. An API server in the same
process reads the logs directly.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import web

from swell.api.codec import convert, to_body
from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key, Uid
from swell.api.times import parse_time
from swell.cluster.embedded.http.credentials import Files, server_tls
from swell.cluster.embedded.http.logs import LogRequest, parse_log_request, send_log
from swell.cluster.embedded.http.options import parse_query
from swell.cluster.embedded.http.streams import CommandSource, exec_command, run_command
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.private import make_private_folder
from swell.node.agent import PodAgent
from swell.node.pods import BoundPod
from swell.node.process.folders import log_file, log_folder_of
from swell.node.process.logfiles import log_segments
from swell.node.process.logreading import LogQuery, read_log
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.connections import SilentConnections, listening
from swell.runtime.errors import (
    ClusterError,
    ForbiddenError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)
from swell.runtime.reviews import ReviewedUser, is_allowed, token_user

HOST = "127.0.0.1"
AUTHORITIES = Key("kube-system", "extension-apiserver-authentication")
AUTHORITY = "client-ca-file"


# What is served, and the verb on nodes/proxy that it takes.
_VERBS = {"containerLogs": "get", "exec": "create"}
IsLive = Callable[[Uid, str], bool]


class ContainerLogs:
    """The logs below one home. `is_live` tells whether a pod's container has a process."""

    def __init__(self, logs: Path, is_live: IsLive, clock: Clock) -> None:
        self._logs = logs
        self._is_live = is_live
        self._clock = clock

    def read(self, pod: Body, request: LogRequest) -> AsyncGenerator[bytes]:
        """Returns the log in pieces; ClusterError when the container has none."""
        return self.read_pod(convert(pod, BoundPod), request)

    def read_pod(self, pod: BoundPod, request: LogRequest) -> AsyncGenerator[bytes]:
        name, uid = request.container, pod.metadata.uid
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        attempt = next((s.restart_count for s in statuses if s.name == name), 0)
        if request.previous:
            if attempt == 0:
                message = f"previous terminated container {name!r} in pod {pod.metadata.name!r}"
                raise bad_request(f"{message} not found")
            attempt -= 1
        path = log_file(log_folder_of(self._logs, pod.metadata), name, attempt)
        is_current = self._is_live(uid, name) and not request.previous
        if not log_segments(path) and not is_current:
            shown = f'container "{name}" in pod "{pod.metadata.name}"'
            raise bad_request(f"{shown} is waiting to start: ContainerCreating")
        follow = request.follow and not request.previous
        query = LogQuery(
            follow, request.timestamps, request.tail_lines, request.limit_bytes,
            self._since(request),
        )  # fmt: skip
        return read_log(path, query, lambda: self._is_live(uid, name), self._clock)

    def _since(self, request: LogRequest) -> float | None:
        if request.since_seconds is not None:
            return self._clock.now() - request.since_seconds
        return parse_time(request.since_time) if request.since_time else None


@dataclass(frozen=True, slots=True)
class LogServer:
    """The handler of requests for the pods of one agent."""

    cluster: Cluster
    pods: PodAgent
    logs: ContainerLogs
    commands: CommandSource
    node: str
    on_known: Callable[[web.BaseRequest], None] = lambda _request: None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        verb = _VERBS.get(parts[0])
        if len(parts) != 4 or verb is None or request.method != "GET":
            return web.Response(status=404, text="only /containerLogs and /exec are served here\n")
        if not await self._is_allowed(request, verb):
            return web.Response(status=401, text="Unauthorized\n")
        self.on_known(request)
        pod = self.pods.informer.get(Key(parts[1], parts[2]))
        if pod is None:
            return web.Response(status=404, text=f"pod {parts[2]} is not on this node\n")
        try:
            if parts[0] == "exec":
                command = exec_command(parse_query(request.query_string))
                return await run_command(request, to_body(pod), parts[3], command, self.commands)
            options = parse_log_request(pod.metadata.name, parse_query(request.query_string))
            pieces = self.logs.read_pod(pod, replace(options, container=parts[3]))
            return await send_log(request, pieces)
        except ClusterError as error:
            return web.Response(status=error.status.code, text=f"{error}\n")

    async def _is_allowed(self, request: web.BaseRequest, verb: str) -> bool:
        """Whether the client is authenticated and may do this to the node."""
        try:
            client = _certificate_user(request)
            if client is None and (token := _token(request)):
                client = await token_user(self.cluster, token)
            return client is not None and await self._may(verb, client)
        except (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError):
            return False

    async def _may(self, verb: str, client: ReviewedUser) -> bool:
        attributes = {"verb": verb, "resource": "nodes", "subresource": "proxy", "name": self.node}
        return await is_allowed(self.cluster, client, {"resourceAttributes": attributes})


@asynccontextmanager
async def serving(
    server: LogServer, listener: socket.socket, tls: ssl.SSLContext
) -> AsyncIterator[None]:
    """Serve on a socket for the time of the context."""
    connections = SilentConnections(SystemClock())
    asked = replace(server, on_known=connections.known)
    # A followed log ends with its client, also while the container prints nothing.
    handler = web.Server(
        asked.handle, handler_cancellation=True, access_log=None, auto_decompress=False
    )
    runner = web.ServerRunner(handler, shutdown_timeout=1.0)
    await runner.setup()
    try:
        async with listening(runner, connections, listener=listener, tls=tls):
            yield
    finally:
        await runner.cleanup()


def listening_socket() -> socket.socket:
    made = socket.create_server((HOST, 0))
    made.setblocking(False)
    return made


async def log_tls(cluster: Cluster, folder: Path) -> ssl.SSLContext:
    """Returns a TLS context with a certificate of our own, which verifies client certificates."""
    tls = _own_tls(folder)
    try:
        found = await cluster.get(CONFIG_MAPS, AUTHORITIES)
    except (NotFoundError, ForbiddenError):
        return tls
    if authority := found.data.get(AUTHORITY):
        tls.load_verify_locations(cadata=authority)
        tls.verify_mode = ssl.CERT_OPTIONAL
    return tls


def _certificate_user(request: web.BaseRequest) -> ReviewedUser | None:
    """Returns the user of a client certificate, which TLS has verified already."""
    found = request.transport.get_extra_info("peercert") if request.transport else None
    if not found:
        return None
    named = [pair for part in found.get("subject", ()) for pair in part]
    names = [value for name, value in named if name == "commonName"]
    groups = tuple(value for name, value in named if name == "organizationName")
    return ReviewedUser(names[0] if names else "", groups)


def _token(request: web.BaseRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else ""


def _own_tls(folder: Path) -> ssl.SSLContext:
    make_private_folder(folder)
    return server_tls(Files(folder))
