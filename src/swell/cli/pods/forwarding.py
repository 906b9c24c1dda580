"""Local ports that lead to those of a pod; every connection has a WebSocket of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

import aiohttp

from swell.api.meta import Key
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.pods.sockets import V4, StreamRefusedError, pod_socket, stream_path
from swell.cluster.kube.access import Access

PIECE_BYTES = 64 << 10
PORT_MAX = 65535
_DATA, _ERROR = 0, 1
# Each channel begins with the number of its port, in two bytes.
_PORT_BYTES = 2


class PortPair(NamedTuple):
    """A local port, 0 for any free one, and the port of the pod that it leads to."""

    local: int
    remote: int


def parse_ports(texts: Sequence[str]) -> list[PortPair]:
    """Parse `8080:80`, `80` and `:80`; CommandError for anything else."""
    found = []
    for text in texts:
        local, colon, remote = text.rpartition(":")
        local = local if colon else remote
        numbers = [part.isdecimal() and part.isascii() for part in (local or "0", remote)]
        if not all(numbers) or not 0 < int(remote) <= PORT_MAX or int(local or 0) > PORT_MAX:
            raise CommandError(f"{text!r} is no port", "write it as 8080:80, 80 or :80", USAGE)
        found.append(PortPair(int(local or 0), int(remote)))
    return found


async def forward(
    access: Access,
    pod: Key,
    pairs: Sequence[PortPair],
    address: str,
    ready: Callable[[int, int], None],
) -> None:
    """Listen until the task is cancelled. `ready` is called with each local and remote port.

    The first stream is tried at once, so that a pod that is not there is told before anything.
    """
    await _try(access, pod, pairs[0].remote)
    async with AsyncExitStack() as stack:
        for pair in pairs:
            handle = _Forwarding(access, pod, pair.remote).serve
            try:
                server = await asyncio.start_server(handle, address, pair.local)
            except OSError as error:
                raise CommandError(f"port {pair.local}: {error.strerror}") from error
            await stack.enter_async_context(server)
            ready(server.sockets[0].getsockname()[1], pair.remote)
        await asyncio.get_running_loop().create_future()


async def _try(access: Access, pod: Key, port: int) -> None:
    """Open a stream and close it again; StreamRefusedError."""
    async with pod_socket(access, _path(pod, port), (V4,)):
        return


def _path(pod: Key, port: int) -> str:
    return stream_path(pod, "portforward", [("ports", str(port))])


class _Forwarding:
    """Serves the connections to one local port."""

    def __init__(self, access: Access, pod: Key, port: int) -> None:
        self._access = access
        self._pod = pod
        self._port = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = _path(self._pod, self._port)
            async with pod_socket(self._access, path, (V4,)) as socket:
                sending = asyncio.create_task(_send(reader, socket))
                try:
                    await self._receive(socket, writer)
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
        except (StreamRefusedError, aiohttp.ClientError, OSError) as error:
            note(f"{self._pod.name}: no connection to port {self._port}: {error}")
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _receive(
        self, socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter
    ) -> None:
        unannounced = {_DATA, _ERROR}
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel in unannounced:
                unannounced.discard(channel)
                data = data[_PORT_BYTES:]
            if channel == _ERROR and data:
                note(f"{self._pod.name}: {data.decode(errors='replace')}")
            elif channel == _DATA and data:
                writer.write(data)
                await writer.drain()


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    while piece := await reader.read(PIECE_BYTES):
        await socket.send_bytes(bytes([_DATA]) + piece)
    await socket.close()
