"""The `log` subresource: its options, and logs fetched from the agents of the nodes.

The options are checked as a real server checks them. Logs are read by a `LogSource`: `NodeLogs`
fetches them from node agents, as an API server does from kubelets. The bytes an agent sends are
passed on unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from swell.api.meta import Body
from swell.api.times import parse_time
from swell.cluster.embedded import refusals
from swell.cluster.embedded.http.node_agents import NodeAgents
from swell.cluster.embedded.http.options import Query, is_true, number
from swell.cluster.embedded.http.watches import STALL_S
from swell.cluster.embedded.refusals import bad_request
from swell.schema.field_errors import FieldError, forbidden, invalid

CONNECT_S = 10.0
PIECE_BYTES = 64 << 10
REFUSAL_BYTES_MAX = 2000  # a refusal becomes the message of a Status
# Python reads more forms of a time than a real server does.
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The part of a container's log that is asked for. None means no limit."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: str = ""


class LogSource(Protocol):
    """A reader of container logs."""

    def read(self, pod: Body, request: LogRequest) -> AsyncGenerator[bytes]:
        """The log in pieces, until its end or, when following, until the container ends.

        Raises ClusterError when the log cannot be read.
        """
        ...


class NoLogs:
    """The log source of a server without nodes: every pod's node is unknown to it."""

    def read(self, pod: Body, request: LogRequest) -> AsyncGenerator[bytes]:  # noqa: ARG002
        raise refusals.not_found("nodes", "", pod["spec"]["nodeName"])


def parse_log_request(name: str, query: Query) -> LogRequest:
    """The log request of a query about a pod; its container is the one named, which may be none.

    Raises ClusterError: 400 when a value cannot be read, 422 when it is out of range.
    """
    given = LogRequest(
        container=(query.get("container") or [""])[0],
        follow=is_true(query, "follow"),
        previous=is_true(query, "previous"),
        timestamps=is_true(query, "timestamps"),
        tail_lines=number(query, "tailLines"),
        limit_bytes=number(query, "limitBytes"),
        since_seconds=number(query, "sinceSeconds"),
        since_time=_time(query, "sinceTime"),
    )
    errors = _range_errors(given, query)
    if errors:
        raise refusals.invalid("PodLogOptions", "", name, errors)
    return given


def with_container(request: LogRequest, pod: Body) -> LogRequest:
    """The request with the container that it is about; ClusterError when none fits."""
    return replace(request, container=container_of(pod, request.container))


async def send_log(
    request: web.BaseRequest, pieces: AsyncGenerator[bytes], stall_s: float = STALL_S
) -> web.StreamResponse:
    """Send a log piece by piece. It ends when the client is gone, or reads nothing for `stall_s`.

    Raises ClusterError before anything is sent when the log cannot be read.
    """
    async with contextlib.aclosing(pieces):
        first = await anext(pieces, b"")  # a refusal must come before the headers are sent
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            await _write(response, first, stall_s)
            async for piece in pieces:
                await _write(response, piece, stall_s)
            await response.write_eof()
        except TimeoutError:
            # The rest of its answer would wait in memory until it reads on.
            if request.transport is not None:
                request.transport.abort()
        except ConnectionResetError:
            pass  # a client may leave at any time
    return response


async def _write(response: web.StreamResponse, piece: bytes, stall_s: float) -> None:
    async with asyncio.timeout(stall_s):
        await response.write(piece)


class NodeLogs:
    """Reads logs from node agents."""

    def __init__(self, agents: NodeAgents) -> None:
        self.agents = agents

    async def read(self, pod: Body, request: LogRequest) -> AsyncGenerator[bytes]:
        """The log in pieces; ClusterError when the node does not send it."""
        path = self.agents.url(pod, "containerLogs", request.container)
        # No limit in all: a log is followed for as long as its container runs.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        connector = aiohttp.TCPConnector(ssl=self.agents.tls())
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                # A redirect by an agent could lead anywhere, so it is not followed.
                session.get(f"{path}?{_query(request)}", allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    text = (await answer.content.read(REFUSAL_BYTES_MAX)).decode(errors="replace")
                    raise bad_request(text.strip() or f"the node answers {answer.status}")
                async for piece in answer.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise refusals.internal(f"no log from node: {error}") from error


def _range_errors(given: LogRequest, query: Query) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value, least in (
        ("tailLines", given.tail_lines, 0),
        ("limitBytes", given.limit_bytes, 1),
        ("sinceSeconds", given.since_seconds, 1),
    ):
        if value is not None and value < least:
            errors.append(invalid(name, value, f"must be greater than or equal to {least}"))
    if "sinceTime" in query and given.since_seconds is not None:
        # A real server writes the path of the options themselves so.
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(forbidden("[]", why))
    if "stream" in query:
        # The choice of a stream is behind a feature gate, which is off by default.
        errors.append(forbidden("stream", "may not be specified"))
    return errors


def _time(query: Query, name: str) -> str:
    """A time parameter; empty when it is not given or null, 400 when it is no RFC 3339 time."""
    text = (query.get(name) or [""])[0]
    if text in {"", "null"}:
        return ""
    try:
        if not _RFC_3339.fullmatch(text):
            raise ValueError(text)
        parse_time(text)
    except ValueError as error:
        raise bad_request(f"{name}: {text!r} is not a time as 2006-01-02T15:04:05Z") from error
    return text


def container_of(pod: Body, wanted: str) -> str:
    """The container that a request is about: the one named, else the only one.

    The annotation of a default container is for kubectl, not for servers.
    """
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [c["name"] for kind in kinds for c in spec.get(kind) or []]
    if wanted:
        if wanted not in known:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    main = [c["name"] for c in spec.get("containers") or []]
    if len(main) == 1:
        return str(main[0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: {known}")


def _query(request: LogRequest) -> str:
    flags = {
        "follow": request.follow,
        "previous": request.previous,
        "timestamps": request.timestamps,
    }
    amounts = {
        "tailLines": request.tail_lines,
        "limitBytes": request.limit_bytes,
        "sinceSeconds": request.since_seconds,
        "sinceTime": request.since_time or None,
    }
    given = {name: "true" for name, is_given in flags.items() if is_given}
    return urlencode(given | {name: str(n) for name, n in amounts.items() if n is not None})
