"""The subresources `exec`, `attach` and `portforward` of pods, over WebSockets.

All speak the channel protocol of Kubernetes: every message is binary, and its first byte says
which stream the rest belongs to.

    exec, attach    0 stdin, 1 stdout, 2 stderr, 3 the Status at the end, 4 the terminal's size;
                    in version 5 a message 255, N closes stream N
    portforward     2i the data and 2i+1 the errors of the i-th port, each begun by the port number

Commands are started by a `CommandSource`: the agent of the nodes in the same process, or agents in
others. The ports of pods are addresses of this machine, which are connected to directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from aiohttp import WSMsgType, web

from swell.api.codec import decode, encode
from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.http.logs import LogRequest, LogSource, container_of
from swell.cluster.embedded.http.options import Query, is_true
from swell.cluster.embedded.refusals import bad_request
from swell.runtime.errors import ClusterError

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PIECE_BYTES = 64 << 10
# A message of a client is a piece of input; kubectl sends some kilobytes at a time.
MESSAGE_BYTES_MAX = 4 << 20
HEARTBEAT_S = 30.0  # a client that is gone without a word is noticed after so long
# One read from a socket may hold tens of thousands of messages, which cost microseconds each.
_MESSAGES_IN_ONE_GO = 64
PORT_MAX = 65535
PORTS_MAX = 128  # a channel has one byte for its number, and a port has two channels


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A command, and which of its streams are wanted; with a terminal all are one."""

    argv: tuple[str, ...]
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class CommandSession(Protocol):
    """One running command in a container."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """The output in pieces, each with its stream, until the command has ended."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close_input(self) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    @property
    def exit_code(self) -> int: ...

    @property
    def start_problem(self) -> str:
        """The reason for which it could not be started; empty if it was."""
        ...

    async def close(self) -> None: ...


class CommandSource(Protocol):
    """Starts commands in containers."""

    def execute(self, pod: Body, container: str, command: ExecCommand) -> CommandSession:
        """Start a command; LookupError when the container does not run here."""
        ...


class _TerminalSize(msgspec.Struct, rename="pascal"):
    """The size of a user's terminal."""

    width: int = 0
    height: int = 0


def exec_command(query: Query) -> ExecCommand:
    """The command of a request's query; 400 when there is none, or nothing to be seen of it."""
    argv = tuple(query.get("command") or ())
    if not argv or not argv[0]:
        raise bad_request("you must specify at least 1 command for the container")
    wanted = {name: is_true(query, name) for name in ("stdin", "stdout", "stderr", "tty")}
    if not any(wanted[name] for name in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return ExecCommand(argv, **wanted)


async def serve_exec(
    http: web.BaseRequest, pod: Body, query: Query, source: CommandSource | None
) -> web.StreamResponse:
    """Run a command in a pod's container, and pass its streams on until it ends."""
    command = exec_command(query)
    container = container_of(pod, (query.get("container") or [""])[0])
    if source is None:
        raise refusals.not_implemented("exec without a node agent")
    check_host(pod)
    return await run_command(http, pod, container, command, source)


async def run_command(
    http: web.BaseRequest, pod: Body, container: str, command: ExecCommand, source: CommandSource
) -> web.StreamResponse:
    """Run a command in a container that is known to be the pod's."""
    check_upgrade(http)
    try:
        session = source.execute(pod, container, command)
    except LookupError as error:
        name = pod["metadata"]["name"]
        raise bad_request(f'container "{container}" in pod "{name}" does not run') from error
    except OSError as error:
        raise refusals.internal(f"cannot start {command.argv[0]}: {error}") from error
    try:
        return await _relay(http, session)
    finally:
        await _close(session)


async def serve_attach(
    http: web.BaseRequest, pod: Body, query: Query, source: LogSource
) -> web.StreamResponse:
    """Pass on what a container prints from now on, until it ends.

    Containers have no input here, so that what the client types is dropped.
    """
    if not any(is_true(query, name) for name in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    container = container_of(pod, (query.get("container") or [""])[0])
    check_host(pod)
    check_upgrade(http)
    wanted = LogRequest(container, follow=True, tail_lines=0)
    session = AttachedSession(source.read(pod, wanted))
    try:
        return await _relay(http, session)
    finally:
        await _close(session)


class AttachedSession:
    """The output of a container as a session; its end is a success, however the container ends."""

    exit_code = 0

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        self._pieces = pieces
        self.start_problem = ""

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """The output in pieces; both streams of a container are one in its log."""
        try:
            async for piece in self._pieces:
                yield STDOUT, piece
        except ClusterError as error:
            self.start_problem = str(error)

    async def write(self, data: bytes) -> None:
        """Drop input."""

    async def close_input(self) -> None:
        """Do nothing: there is no input."""

    async def resize(self, columns: int, rows: int) -> None:
        """Do nothing: there is no terminal."""

    async def close(self) -> None:
        await self._pieces.aclose()


async def _relay(http: web.BaseRequest, session: CommandSession) -> web.StreamResponse:
    socket = new_socket((V5, V4))
    await socket.prepare(http)
    reading = asyncio.create_task(_take_input(socket, session))
    writing = asyncio.create_task(_send_output(socket, session))
    try:
        # The first to end decides: the command, or a client that is gone.
        await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        if writing.done():
            with contextlib.suppress(ConnectionResetError):
                writing.result()
                await socket.send_bytes(bytes([ERROR]) + encode(_end_of(session)))
    finally:
        for task in (reading, writing):
            task.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)
    await socket.close()
    return socket


async def _close(session: CommandSession) -> None:
    """Close a session to its end, also when the client leaves meanwhile, which cancels this."""
    closing = asyncio.create_task(session.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await closing
        raise


async def _take_input(socket: web.WebSocketResponse, session: CommandSession) -> None:
    async for message in messages(socket):
        channel, data = message[0], message[1:]
        if channel == STDIN:
            await session.write(data)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await session.close_input()
        elif channel == RESIZE:
            with contextlib.suppress(msgspec.DecodeError):
                size = decode(data, _TerminalSize)
                await session.resize(size.width, size.height)


async def _send_output(socket: web.WebSocketResponse, session: CommandSession) -> None:
    async for stream, piece in session.output():
        await socket.send_bytes(bytes([stream]) + piece)


def _end_of(session: CommandSession) -> Body:
    """The Status from which a client takes the command's exit code."""
    if problem := session.start_problem:
        return {
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
            "message": f"Internal error occurred: {problem}",
            "code": 500,
        }
    code = session.exit_code
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def serve_port_forward(http: web.BaseRequest, pod: Body, query: Query) -> web.StreamResponse:
    """Connect ports of a pod with the streams of a client, for as long as it stays."""
    ports = _ports(query)
    address = pod_address(pod)
    check_host(pod)
    check_upgrade(http)
    socket = new_socket((V4,))
    await socket.prepare(http)
    forwards = [PortForward(socket, at, address, port) for at, port in enumerate(ports)]
    try:
        for one in forwards:
            await one.open()
        async for message in messages(socket):
            at, is_error = divmod(message[0], 2)
            if at < len(forwards) and not is_error:
                await forwards[at].write(message[1:])
    except ConnectionResetError:
        pass  # a client may leave at any time
    finally:
        for one in forwards:
            await one.close()
    await socket.close()
    return socket


def pod_address(pod: Body) -> str:
    """The address of a running pod; 400 when it has none of this machine.

    Who may write a pod's status must not lead the server's connections elsewhere.
    """
    status = pod.get("status") or {}
    address = str(status.get("podIP") or "")
    if status.get("phase") != "Running" or not address:
        raise bad_request("pod is not running, so that no port of it can be reached")
    try:
        is_own = ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_own = False
    if not is_own:
        raise bad_request(f"pod has the address {address}, which is none of this machine's pods")
    return address


def port_problem(port: int, error: OSError) -> str:
    """The sentence for a port that cannot be reached; asyncio's own text names an address."""
    return f"port {port} of the pod: {os.strerror(error.errno) if error.errno else error}"


class PortForward:
    """One port of a pod, connected with two channels of a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, at: int, address: str, port: int) -> None:
        self._socket = socket
        self._data, self._error = bytes([2 * at]), bytes([2 * at + 1])
        self._address, self._port = address, port
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Announce both channels, and connect; a refused connection is told on the second."""
        announced = struct.pack("<H", self._port)
        await self._socket.send_bytes(self._data + announced)
        await self._socket.send_bytes(self._error + announced)
        try:
            reader, self._writer = await asyncio.open_connection(self._address, self._port)
        except OSError as error:
            problem = port_problem(self._port, error)
            await self._socket.send_bytes(self._error + problem.encode())
            await self._socket.close()
            return
        self._reading = asyncio.create_task(self._send(reader))

    async def _send(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionResetError):
            while piece := await reader.read(PIECE_BYTES):
                await self._socket.send_bytes(self._data + piece)
            # The channels cannot be closed one by one; a single port ends with its connection.
            await self._socket.close()

    async def write(self, data: bytes) -> None:
        if self._writer is not None:
            self._writer.write(data)
            with contextlib.suppress(ConnectionResetError):
                await self._writer.drain()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()


def _ports(query: Query) -> list[int]:
    given = [part for text in query.get("ports") or () for part in text.split(",")]
    if not given:
        raise bad_request("query parameter 'ports' is required")
    if len(given) > PORTS_MAX:
        raise bad_request(f"{len(given)} ports are asked for; one connection takes {PORTS_MAX}")
    ports = [port_number(text) for text in given]
    if not all(ports):
        raise bad_request(f"ports must be numbers from 1 to {PORT_MAX}")
    return ports


def port_number(text: str) -> int:
    """The port that a client names; 0 when it is none."""
    # The length first: Python refuses to read numbers of some thousand digits.
    is_number = len(text) <= len(str(PORT_MAX)) and text.isdecimal() and text.isascii()
    return int(text) if is_number and int(text) <= PORT_MAX else 0


def new_socket(protocols: Sequence[str]) -> web.WebSocketResponse:
    return web.WebSocketResponse(
        protocols=protocols,
        heartbeat=HEARTBEAT_S,
        max_msg_size=MESSAGE_BYTES_MAX,
        compress=False,
        autoping=False,  # `messages` answers, in turns with other clients
    )


async def messages(socket: web.WebSocketResponse) -> AsyncIterator[bytes]:
    """The binary messages of a client that are not empty, until it is gone.

    Other clients have their turn in between, however many messages have come at once.
    """
    number = 0
    async for message in socket:
        if message.type is WSMsgType.PING:
            await socket.pong(message.data)
        elif message.type is WSMsgType.BINARY and message.data:
            yield message.data
        number += 1
        if number % _MESSAGES_IN_ONE_GO == 0:
            await asyncio.sleep(0)


def check_host(pod: Body) -> None:
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def check_upgrade(http: web.BaseRequest) -> None:
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required: this server speaks WebSockets")
