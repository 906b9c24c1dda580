"""Ports of a pod through a tunnel: SPDY streams inside a WebSocket, as kubectl forwards ports.

For every connection the client opens two streams with the same request number: `error`, on which
only a problem is sent, and `data`. Both have the number of the port.

    error opened -> data opened -> bytes both ways -> end of either -> both streams ended
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from aiohttp import web

from swell.api.meta import Body
from swell.cluster.embedded.http.spdy import (
    GoAway,
    OpenedStream,
    PingFrame,
    ResetStream,
    SpdyDecoder,
    SpdyEncoder,
    SpdyError,
    SpdyFrame,
    StreamData,
)
from swell.cluster.embedded.http.streams import (
    PIECE_BYTES,
    check_host,
    check_upgrade,
    messages,
    new_socket,
    pod_address,
    port_number,
    port_problem,
)

# The name by which the client asks for this form.
TUNNEL = "SPDY/3.1+portforward.k8s.io"
# Each has a connection to the pod; a browser opens some tens.
CONNECTIONS_MAX = 1000
# Pieces that may wait for a pod that reads slowly, before the client is read no further.
_PIECES_MAX = 64
# A message may hold hundreds of thousands of small frames, each of which takes some microseconds.
# After so many bytes, milliseconds at worst, other clients have their turn.
_BYTES_IN_ONE_GO = 8 << 10


def is_tunnel(http: web.BaseRequest) -> bool:
    """Whether a request for the ports of a pod asks for a tunnel."""
    asked = http.headers.get("Sec-WebSocket-Protocol", "")
    return TUNNEL in (name.strip() for name in asked.split(","))


async def serve_tunnel(http: web.BaseRequest, pod: Body) -> web.StreamResponse:
    """Connect a client with ports of a pod, for as long as it stays."""
    address = pod_address(pod)
    check_host(pod)
    check_upgrade(http)
    socket = new_socket((TUNNEL,))
    await socket.prepare(http)
    tunnel = PortTunnel(socket, address)
    try:
        await tunnel.serve()
    except (SpdyError, ConnectionResetError):
        pass  # a client may leave at any time, and one that speaks otherwise is left
    finally:
        await tunnel.close()
    await socket.close()
    return socket


@dataclass(slots=True)
class PortConnection:
    """One connection to a port, and the pieces that wait to be written to it; None is the end."""

    error: int
    data: int
    port: int
    pieces: asyncio.Queue[bytes | None] = field(
        default_factory=lambda: asyncio.Queue(maxsize=_PIECES_MAX)
    )
    task: asyncio.Task[None] | None = None


class PortTunnel:
    """All connections of one client."""

    def __init__(self, socket: web.WebSocketResponse, address: str) -> None:
        self._socket = socket
        self._address = address
        self._decoder, self._encoder = SpdyDecoder(), SpdyEncoder()
        self._errors: dict[str, int] = {}  # streams that wait for their data stream, by request
        self._connections: dict[int, PortConnection] = {}  # by their data stream

    async def serve(self) -> None:
        """Carry out what the client sends, until it is gone."""
        async for message in messages(self._socket):
            for at in range(0, len(message), _BYTES_IN_ONE_GO):
                for frame in self._decoder.feed(message[at : at + _BYTES_IN_ONE_GO]):
                    if isinstance(frame, GoAway):
                        return
                    await self._take(frame)
                await asyncio.sleep(0)

    async def close(self) -> None:
        tasks = [one.task for one in self._connections.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, frame: SpdyFrame) -> None:
        match frame:
            case OpenedStream():
                await self._open(frame)
            case StreamData(stream, data, is_over):
                await self._feed(stream, data, is_over=is_over)
            case ResetStream(stream):
                await self._reset(stream)
            case PingFrame(id_):
                await self._socket.send_bytes(self._encoder.ping(id_))

    async def _open(self, opened: OpenedStream) -> None:
        kind, request = opened.headers.get("streamtype"), opened.headers.get("requestid", "")
        port = port_number(opened.headers.get("port", ""))
        is_full = len(self._connections) + len(self._errors) >= CONNECTIONS_MAX
        if not port or is_full:
            await self._socket.send_bytes(self._encoder.refused(opened.stream))
        elif kind == "error":
            self._errors[request] = opened.stream
            await self._socket.send_bytes(self._encoder.accepted(opened.stream))
        elif kind == "data" and request in self._errors:
            connection = PortConnection(self._errors.pop(request), opened.stream, port)
            self._connections[opened.stream] = connection
            await self._socket.send_bytes(self._encoder.accepted(opened.stream))
            connection.task = asyncio.create_task(self._connect(connection))
        else:
            await self._socket.send_bytes(self._encoder.refused(opened.stream))

    async def _reset(self, stream: int) -> None:
        """End a connection that the client gives up; it waits for the end of the error stream."""
        connection = self._connections.get(stream)
        if connection is None or connection.task is None:
            return
        connection.task.cancel()
        await asyncio.gather(connection.task, return_exceptions=True)
        self._connections.pop(stream, None)
        await self._socket.send_bytes(self._encoder.data(connection.error, b"", is_over=True))

    async def _feed(self, stream: int, data: bytes, *, is_over: bool) -> None:
        """Hand bytes to the connection of a stream; the client says nothing on error streams."""
        connection = self._connections.get(stream)
        if connection is None:
            return
        if data:
            await self._put(connection, data)
        if is_over:
            await self._put(connection, None)

    async def _put(self, connection: PortConnection, piece: bytes | None) -> None:
        """Wait until a piece is taken, or the connection has ended meanwhile."""
        if connection.task is None or connection.task.done():
            return
        putting = asyncio.create_task(connection.pieces.put(piece))
        await asyncio.wait({putting, connection.task}, return_when=asyncio.FIRST_COMPLETED)
        putting.cancel()

    async def _connect(self, connection: PortConnection) -> None:
        """Join one connection with its streams, and end both streams with it."""
        problem = ""
        try:
            try:
                reader, writer = await asyncio.open_connection(self._address, connection.port)
            except OSError as error:
                problem = port_problem(connection.port, error)
            else:
                await self._exchange(connection, reader, writer)
            await self._end(connection, problem)
        except ConnectionResetError:
            pass  # the client is gone, and its tunnel with it
        finally:
            self._connections.pop(connection.data, None)

    async def _exchange(
        self,
        connection: PortConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        writing = asyncio.create_task(_write(connection.pieces, writer))
        try:
            while piece := await _read(reader):
                await self._socket.send_bytes(self._encoder.data(connection.data, piece))
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _end(self, connection: PortConnection, problem: str) -> None:
        error = self._encoder.data(connection.error, problem.encode(), is_over=True)
        data = self._encoder.data(connection.data, b"", is_over=True)
        await self._socket.send_bytes(error)
        await self._socket.send_bytes(data)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Read what is there; nothing at the end, also where the pod ended it by a reset."""
    try:
        return await reader.read(PIECE_BYTES)
    except ConnectionResetError:
        return b""


async def _write(pieces: asyncio.Queue[bytes | None], writer: asyncio.StreamWriter) -> None:
    """Write pieces until the client's end, which the pod then sees; it may go on to answer."""
    with contextlib.suppress(OSError):
        while piece := await pieces.get():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
