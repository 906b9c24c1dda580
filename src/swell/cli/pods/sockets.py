"""The WebSocket to a stream of a pod: `exec` and `portforward` of an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode

import aiohttp

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access
from swell.cluster.kube.credentials import client_tls, credential_source
from swell.runtime.clock import SystemClock
from swell.runtime.errors import BadRequestError

# The channel protocols, the newest first. In version 5 the end of the input can be told.
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
# What servers answer to a request that would have been right as a WebSocket.
_NO_UPGRADE = "pgrade request required"
HEARTBEAT_S = 30.0


class StreamRefusedError(Exception):
    """A server has not opened a stream."""

    def __init__(self, path: str, code: int) -> None:
        super().__init__(f"HTTP {code}")
        self.path = path
        self.code = code


def stream_path(pod: Key, subresource: str, query: Sequence[tuple[str, str]]) -> str:
    path = PODS.path(quote(pod.namespace, ""), quote(pod.name, ""))
    return f"{path}/{subresource}?{urlencode(query)}"


@asynccontextmanager
async def pod_socket(
    access: Access, path: str, protocols: Sequence[str]
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open the stream at a path; StreamRefusedError when the server does not."""
    tls = client_tls(access)
    header = await credential_source(access, tls, SystemClock()).authorization()
    headers = {"Authorization": header} if header else {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
        try:
            socket = await session.ws_connect(
                access.server + path,
                headers=headers,
                protocols=tuple(protocols),
                heartbeat=HEARTBEAT_S,
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise StreamRefusedError(path, error.status) from error
        async with socket:
            yield socket


def explain_refusal(connection: ClusterConnection, refused: StreamRefusedError) -> CommandError:
    """Return the error of a stream that was refused, in the words of its server.

    The answer to a WebSocket's request has no body that could be read, so that it is asked for by
    a plain request, which is refused in the same way; ClusterError with the reason.
    """
    try:
        connection.client.send(calls.raw(refused.path))
    except BadRequestError as error:
        if _NO_UPGRADE not in str(error):
            raise
    return CommandError(f"the server does not open the stream: {refused}")
