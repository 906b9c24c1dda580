"""Serves logs the way a kubelet does, so that any API server can fetch them from here.

`GET /containerLogs/NAMESPACE/POD/CONTAINER` over TLS, for those who prove who they are: with a
client certificate of the cluster's authority, or with a token that the API server knows and that
may look into nodes. Nobody else is told anything.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from swell.api.codec import convert
from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.api.times import parse_time
from swell.cluster.embedded.http.credentials import Files, server_tls
from swell.cluster.embedded.http.logs import LogRequest
from swell.cluster.embedded.refusals import bad_request
from swell.node.agent import PodAgent
from swell.node.pods import BoundPod
from swell.node.process.folders import log_file, log_folder_of
from swell.node.process.logfiles import LogQuery, log_segments, read_log
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import (
    ClusterError,
    ForbiddenError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)

HOST = "127.0.0.1"
AUTHORITIES = Key("kube-system", "extension-apiserver-authentication")
AUTHORITY = "client-ca-file"
TOKEN_REVIEWS: Resource[Body] = Resource(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", dict, namespaced=False
)
ACCESS_REVIEWS: Resource[Body] = Resource(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    dict,
    namespaced=False,
)


@dataclass(frozen=True, slots=True)
class LogClient:
    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogServer:
    """What the server answers from."""

    cluster: Cluster
    pods: PodAgent
    logs: ContainerLogs
    node: str

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if len(parts) != 4 or parts[0] != "containerLogs" or request.method != "GET":
            return web.Response(status=404, text="only /containerLogs is served here\n")
        if not await self._is_let_in(request):
            return web.Response(status=401, text="Unauthorized\n")
        pod = self.pods.informer.get(Key(parts[1], parts[2]))
        if pod is None:
            return web.Response(status=404, text=f"pod {parts[2]} is not on this node\n")
        try:
            pieces = self.logs.read_pod(pod, _wanted(parts[3], request.query))
        except (ClusterError, ValueError) as error:
            return web.Response(status=400, text=f"{error}\n")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        # Whoever follows a log goes when he has seen enough.
        with contextlib.suppress(ConnectionResetError):
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        return response

    async def _is_let_in(self, request: web.BaseRequest) -> bool:
        """Whether the client is somebody the cluster knows, who may look into this node."""
        try:
            caller = _certified(request) or await self._owner(_token(request))
            return caller is not None and await self._may_look(caller)
        except (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError):
            return False

    async def _owner(self, token: str) -> LogClient | None:
        if not token:
            return None
        review = {"spec": {"token": token}, "metadata": {}}
        seen = (await self.cluster.create(TOKEN_REVIEWS, review)).get("status") or {}
        if not seen.get("authenticated"):
            return None
        user = seen.get("user") or {}
        return LogClient(user.get("username", ""), tuple(user.get("groups") or ()))

    async def _may_look(self, caller: LogClient) -> bool:
        attributes = {"verb": "get", "resource": "nodes", "subresource": "proxy", "name": self.node}
        asked = {
            "user": caller.name,
            "groups": list(caller.groups),
            "resourceAttributes": attributes,
        }
        try:
            answer = await self.cluster.create(ACCESS_REVIEWS, {"spec": asked, "metadata": {}})
        except NotFoundError:
            return True  # an embedded server: whoever it vouches for is its only user, or itself
        return bool((answer.get("status") or {}).get("allowed"))


@asynccontextmanager
async def serving(
    server: LogServer, listener: socket.socket, tls: ssl.SSLContext
) -> AsyncIterator[None]:
    """Answer on a socket for as long as the context lasts."""
    runner = web.ServerRunner(web.Server(server.handle, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener, ssl_context=tls).start()
    try:
        yield
    finally:
        await runner.cleanup()


def listening_socket() -> socket.socket:
    made = socket.create_server((HOST, 0))
    made.setblocking(False)
    return made


async def log_tls(cluster: Cluster, folder: Path) -> ssl.SSLContext:
    """TLS with a certificate of our own, for clients that the cluster's authority vouches for."""
    tls = _own_tls(folder)
    try:
        found = await cluster.get(CONFIG_MAPS, AUTHORITIES)
    except (NotFoundError, ForbiddenError):
        return tls
    if authority := found.data.get(AUTHORITY):
        tls.load_verify_locations(cadata=authority)
        tls.verify_mode = ssl.CERT_OPTIONAL
    return tls


def _certified(request: web.BaseRequest) -> LogClient | None:
    """Whom a client certificate names; TLS has checked that the authority vouches for it."""
    found = request.transport.get_extra_info("peercert") if request.transport else None
    if not found:
        return None
    named = [pair for part in found.get("subject", ()) for pair in part]
    names = [value for name, value in named if name == "commonName"]
    groups = tuple(value for name, value in named if name == "organizationName")
    return LogClient(names[0] if names else "", groups)


def _token(request: web.BaseRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else ""


def _own_tls(folder: Path) -> ssl.SSLContext:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return server_tls(Files(folder))


def _wanted(container: str, query: Mapping[str, str]) -> LogRequest:
    def number(name: str) -> int | None:
        return int(query[name]) if query.get(name) else None

    return LogRequest(
        container=container,
        follow=query.get("follow") == "true",
        previous=query.get("previous") == "true",
        timestamps=query.get("timestamps") == "true",
        tail_lines=number("tailLines"),
        limit_bytes=number("limitBytes"),
        since_seconds=number("sinceSeconds"),
        since_time=query.get("sinceTime", ""),
    )


IsLive = Callable[[Uid, str], bool]


class ContainerLogs:
    """The logs under one home. `is_live` says whether a pod's container has a process."""

    def __init__(self, logs: Path, is_live: IsLive, clock: Clock) -> None:
        self._logs = logs
        self._is_live = is_live
        self._clock = clock

    def read(self, pod: Body, request: LogRequest) -> AsyncIterator[bytes]:
        """The log in pieces; ClusterError when there is none to be had."""
        return self.read_pod(convert(pod, BoundPod), request)

    def read_pod(self, pod: BoundPod, request: LogRequest) -> AsyncIterator[bytes]:
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
