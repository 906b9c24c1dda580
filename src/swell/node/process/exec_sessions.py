"""A command that a user runs in a container: its input and output, or its terminal.

Input and output go through named pipes in a folder of the command's own, so that its supervisor,
which is forked by another process, can open them. The agent keeps both ends of each pipe open:
it neither waits for the command to open them nor takes a command that starts late for one that has
ended. The end of the command is the report of its supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator

from swell.cluster.embedded.http.streams import STDERR, STDIN, STDOUT, ExecCommand
from swell.cluster.trees import discard_tree
from swell.node.process.container import ExecRunner
from swell.node.process.supervised import SupervisedRun
from swell.node.runs import KILLED_CODE

PIECE_BYTES = 64 << 10
# The reason that a supervisor gives when a command could not be started.
START_ERROR = "StartError"
# How long a command has to end that is killed, before its supervisor is.
END_S = 10.0


class ExecSession:
    """One running command. `close` ends it, if it has not ended, and removes its files."""

    def __init__(self, runner: ExecRunner, container: SupervisedRun, command: ExecCommand) -> None:
        self._wake = asyncio.Event()
        self._folder = runner.new_folder(container)
        self._outputs: dict[int, int] = {}  # descriptors by stream
        self._input = -1
        self._terminal = -1
        self._slave = -1
        self._is_input_over = False
        try:
            stdio = self._open_terminal() if command.tty else self._open_pipes(command)
            self._run = runner.start(
                container, command.argv, self._folder, self._changed, stdio=stdio
            )
        except OSError:
            self._close_files()
            raise

    def _open_terminal(self) -> tuple[str, ...]:
        self._terminal, self._slave = pty.openpty()
        os.set_blocking(self._terminal, False)
        self._input = self._outputs[STDOUT] = self._terminal
        return (os.ttyname(self._slave),)

    def _open_pipes(self, command: ExecCommand) -> tuple[str, ...]:
        stdio = []
        wanted = {STDIN: command.stdin, STDOUT: command.stdout, STDERR: command.stderr}
        for stream, is_wanted in wanted.items():
            if not is_wanted:
                stdio.append(os.devnull)
                continue
            path = self._folder / f"pipe-{stream}"
            os.mkfifo(path, 0o600)
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            if stream == STDIN:
                self._input = descriptor
            else:
                self._outputs[stream] = descriptor
            stdio.append(str(path))
        return tuple(stdio)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """The output in pieces, each with its stream, until the command has ended."""
        loop = asyncio.get_running_loop()
        while True:
            for descriptor in self._outputs.values():
                loop.add_reader(descriptor, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                for descriptor in self._outputs.values():
                    loop.remove_reader(descriptor)
            self._wake.clear()
            # Looked at before reading: whatever the command has written is there by then.
            is_over = self._run.ended is not None
            is_empty = True
            for stream, descriptor in self._outputs.items():
                while piece := _read(descriptor):
                    is_empty = False
                    yield stream, piece
            if is_over and is_empty:
                return
            if is_over:
                self._wake.set()

    async def write(self, data: bytes) -> None:
        """Hand input to the command, when it takes it; input of one that has ended is dropped."""
        while data and self._input >= 0 and self._run.ended is None:
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                await self._until_writable()

    async def _until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._input, ready.set)
        try:
            # The command may end without reading the rest, which no writer would notice.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await ready.wait()
        finally:
            loop.remove_writer(self._input)

    async def close_input(self) -> None:
        """Let the command see the end of its input."""
        self._is_input_over = True
        self._close_input_if_over()

    def _changed(self) -> None:
        self._wake.set()
        self._close_input_if_over()

    def _close_input_if_over(self) -> None:
        """Close the input of a command that has opened it: before, the input would be lost."""
        is_open = self._terminal < 0 and self._input >= 0
        if self._is_input_over and is_open and self._run.started_at is not None:
            os.close(self._input)
            self._input = -1

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the command's terminal how large the user's is."""
        if self._terminal >= 0:
            size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    @property
    def exit_code(self) -> int:
        return self._run.ended.exit_code if self._run.ended is not None else KILLED_CODE

    @property
    def start_problem(self) -> str:
        """The reason for which the command could not be started; empty if it was."""
        ended = self._run.ended
        if self._run.refusal:
            return self._run.refusal
        if ended is None or ended.reason != START_ERROR:
            return ""
        try:
            return (self._folder / "log").read_text(errors="replace").strip()
        except OSError:
            return "cannot start it"

    async def close(self) -> None:
        """End the command and everything that it has started."""
        self._run.kill()
        try:
            async with asyncio.timeout(END_S):
                while self._run.ended is None:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            self._run.kill_supervisor()
        self._close_files()

    def _close_files(self) -> None:
        for descriptor in {self._input, self._terminal, self._slave, *self._outputs.values()}:
            if descriptor >= 0:
                os.close(descriptor)
        self._input = self._terminal = self._slave = -1
        self._outputs = {}
        discard_tree(self._folder)


def _read(descriptor: int) -> bytes:
    """Read what is there now; nothing also from a terminal that no process has open any more."""
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EIO}:
            return b""
        raise
