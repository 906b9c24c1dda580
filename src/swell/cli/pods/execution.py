"""Runs a command in a container over a WebSocket: input, output, terminal and exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import aiohttp

from swell.api import codec
from swell.api.meta import Body, Key
from swell.cli.command_line import CommandError
from swell.cli.pods.sockets import V4, V5, pod_socket, stream_path
from swell.cluster.kube.access import Access

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
PIECE_BYTES = 64 << 10

Output = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class RemoteCommand:
    """A command for a container, and whether it gets input and a terminal."""

    pod: Key
    container: str
    argv: tuple[str, ...]
    stdin: bool = False
    tty: bool = False

    @property
    def path(self) -> str:
        query = [("command", part) for part in self.argv]
        wanted = {"stdin": self.stdin, "stdout": True, "stderr": not self.tty, "tty": self.tty}
        query += [(name, "true") for name, is_wanted in wanted.items() if is_wanted]
        if self.container:
            query.append(("container", self.container))
        return stream_path(self.pod, "exec", query)


class CommandFailedError(CommandError):
    """A server could not run a command in a container, or the connection to it has broken."""


async def run_remote(
    access: Access,
    command: RemoteCommand,
    *,
    pieces: AsyncIterator[bytes] | None = None,
    stdout: Output,
    stderr: Output,
) -> int:
    """Run a command to its end and return its exit code. `pieces` are its input."""
    async with pod_socket(access, command.path, (V5, V4)) as socket:
        sending = asyncio.create_task(_send(socket, pieces)) if pieces is not None else None
        try:
            with _resizing(socket) if command.tty else contextlib.nullcontext():
                return await _receive(socket, stdout, stderr)
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)


async def _send(socket: aiohttp.ClientWebSocketResponse, pieces: AsyncIterator[bytes]) -> None:
    async for piece in pieces:
        await socket.send_bytes(bytes([_STDIN]) + piece)
    if socket.protocol == V5:
        await socket.send_bytes(bytes([_CLOSE, _STDIN]))


async def _receive(socket: aiohttp.ClientWebSocketResponse, stdout: Output, stderr: Output) -> int:
    outputs = {_STDOUT: stdout, _STDERR: stderr}
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == _ERROR:
            return exit_code_of(codec.decode(data, dict))
        if channel in outputs and data:
            outputs[channel](data)
    raise CommandFailedError("the connection has ended before the command did")


def exit_code_of(status: Body) -> int:
    """Return the exit code in the Status at a command's end; CommandFailedError without one."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
            return int(cause["message"])
    raise CommandFailedError(str(status.get("message") or "the command could not be run"))


@contextlib.contextmanager
def _resizing(socket: aiohttp.ClientWebSocketResponse) -> Iterator[None]:
    """Tell the size of this terminal now, and whenever it changes."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def tell() -> None:
        size = shutil.get_terminal_size()
        body = codec.encode({"Width": size.columns, "Height": size.lines})
        task = loop.create_task(socket.send_bytes(bytes([_RESIZE]) + body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    tell()
    loop.add_signal_handler(signal.SIGWINCH, tell)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Hand every key on as it is pressed; Ctrl-C is for the command then."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)  # keys that are pressed already are kept
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def standard_input() -> AsyncIterator[bytes]:
    """The standard input of this process in pieces, whatever it is: a file, a pipe, a terminal.

    A thread reads it, which nobody waits for: a read of a terminal may never return.
    """
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        while True:
            try:
                piece = os.read(descriptor, PIECE_BYTES)
                # Waits until it is taken, so that a large file is not read into memory.
                asyncio.run_coroutine_threadsafe(pieces.join(), loop).result()
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except (OSError, RuntimeError, asyncio.CancelledError):
                return  # the loop is closed: the command has ended
            if not piece:
                return

    threading.Thread(target=read, daemon=True).start()
    while piece := await pieces.get():
        yield piece
        pieces.task_done()
