"""Two ways to start workers: cold, in a new interpreter, and warm, forked from a zygote.

Both tell how workers ended, by local rank. The warm way starts a worker within milliseconds, since
the framework is loaded; it is not taken for a framework that has touched a GPU while it loaded.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from swell.train.launch.output import Destination
from swell.train.launch.processes import Processes, signal_group

_ZYGOTE = Path(__file__).parent / "worker" / "zygote.py"
# A fork takes milliseconds; a machine that swaps may need seconds.
_FORK_S_MAX = 60.0
# Imported before a fork: what scripts of a framework import, as far as it is safe to share.
MODULES: Mapping[str, tuple[str, ...]] = {
    "pytorch": (
        "torch",
        "torch.distributed",
        "torch.nn.parallel",
        "torch.optim",
        "torch.utils.data",
        "torch._dynamo",
    ),
    "jax": ("jax", "jax.numpy", "jax.distributed"),
    "paddle": ("paddle", "paddle.distributed", "paddle.distributed.fleet"),
    "plain": (),
}


class StartError(Exception):
    """Workers cannot be started. Its text is one sentence."""


@dataclass(frozen=True, slots=True)
class Script:
    """The user's program. `interpreter` is empty for one that is no Python script."""

    command: tuple[str, ...]
    is_module: bool = False
    interpreter: tuple[str, ...] = (sys.executable,)

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.interpreter, *(("-m",) if self.is_module else ()), *self.command)


class Starter(Protocol):
    """A way to start workers, to signal them, and to learn how they ended."""

    def start(self, local_rank: int, environ: Mapping[str, str], to: Destination) -> None: ...

    def signal(self, number: int) -> None:
        """Send a signal to every worker that runs, and to its process group."""
        ...

    def ended(self) -> list[tuple[int, int]]:
        """Local rank and exit code of each worker that has ended since the last call."""
        ...

    def close(self) -> None:
        """Kill all that runs."""
        ...


@dataclass(slots=True)
class ColdStart:
    """A new interpreter for every worker."""

    script: Script
    processes: Processes = field(default_factory=Processes)
    _ranks: dict[int, int] = field(default_factory=dict)

    def start(self, local_rank: int, environ: Mapping[str, str], to: Destination) -> None:
        pid = self.processes.start_confined(self.script.argv, environ, to)
        self._ranks[pid] = local_rank

    def signal(self, number: int) -> None:
        for pid in self._ranks:
            signal_group(pid, number)

    def ended(self) -> list[tuple[int, int]]:
        found = []
        for pid, code in sorted(self.processes.reap().items()):
            if pid in self._ranks:
                # Processes that the worker has started and left behind end with it.
                signal_group(pid, signal.SIGKILL)
                found.append((self._ranks.pop(pid), code))
        return found

    def close(self) -> None:
        _kill_all(self, self._ranks)


class _Message(msgspec.Struct, frozen=True):
    """A line of the zygote."""

    event: str
    pid: int = 0
    local_rank: int = 0
    code: int = 0
    failed: tuple[str, ...] = ()
    blocked: str = ""


@dataclass(slots=True)
class WarmStart:
    """Workers forked from a process that has loaded the framework. If it dies, it is replaced."""

    script: Script
    modules: Sequence[str]
    environ: Mapping[str, str]
    processes: Processes = field(default_factory=Processes)
    # Sentences about modules that could not be loaded.
    failed: tuple[str, ...] = ()
    _ranks: dict[int, int] = field(default_factory=dict)
    _ended: list[tuple[int, int]] = field(default_factory=list)
    _line: socket.socket | None = None
    _inbox: bytes = b""
    _zygote: int = 0

    def load(self, is_cancelled: Callable[[], bool] = lambda: False) -> str:
        """Start the zygote, wait until all is loaded, and return a reason not to use it."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [*self.script.interpreter, str(_ZYGOTE), str(theirs.fileno())]
            self._zygote = self.processes.start(
                [*command, str(os.getpid()), ",".join(self.modules)],
                environ=self.environ,
                pass_fds=[theirs.fileno()],
            )
        self._line, self._inbox = ours, b""
        while not is_cancelled():
            for message in self._read(timeout_s=0.1):
                if message.event == "warm":
                    self.failed = message.failed
                    return message.blocked
            if self._is_lost():
                return "the process that loads the framework has ended"
        return "the launcher was told to end"

    def start(self, local_rank: int, environ: Mapping[str, str], to: Destination) -> None:
        if self._line is None:
            self._reload()
        request = {
            "local_rank": local_rank,
            "environ": dict(environ),
            "command": list(self.script.command),
            "module": self.script.is_module,
            "stdout": to.stdout,
            "stderr": to.stderr,
        }
        self._send(json.dumps(request).encode() + b"\n")
        give_up = time.monotonic() + _FORK_S_MAX
        while local_rank not in self._ranks.values() and not self._is_lost():
            self._note(timeout_s=0.1)
            if time.monotonic() > give_up:
                raise StartError("the process that forks workers does not answer")

    def _send(self, line: bytes) -> None:
        if self._line is None:
            return
        try:
            self._line.sendall(line)
        except OSError:
            self._lost()

    def _reload(self) -> None:
        reason = self.load()
        if reason:
            raise StartError(reason)

    def signal(self, number: int) -> None:
        for pid in self._ranks:
            signal_group(pid, number)

    def ended(self) -> list[tuple[int, int]]:
        self._note(timeout_s=0.0)
        self.processes.reap()
        found, self._ended = self._ended, []
        return found

    def _note(self, timeout_s: float) -> None:
        for message in self._read(timeout_s):
            if message.event == "started":
                self._ranks[message.pid] = message.local_rank
            elif message.pid in self._ranks:
                # Processes that the worker has started and left behind end with it.
                signal_group(message.pid, signal.SIGKILL)
                self._ended.append((self._ranks.pop(message.pid), message.code))

    def _read(self, timeout_s: float) -> list[_Message]:
        if self._line is None:
            return []
        self._line.settimeout(timeout_s)
        try:
            part = self._line.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            part = b""
        if not part:
            self._lost()
            return []
        self._line.settimeout(None)
        *lines, self._inbox = (self._inbox + part).split(b"\n")
        return [msgspec.json.decode(line, type=_Message) for line in lines]

    def _is_lost(self) -> bool:
        return self._line is None

    def _lost(self) -> None:
        """The zygote is gone, and the kernel has killed its workers."""
        if self._line is not None:
            self._line.close()
        self._line = None
        for pid in self._ranks:
            signal_group(pid, signal.SIGKILL)
        self._ended += [(rank, -signal.SIGKILL) for rank in self._ranks.values()]
        self._ranks = {}
        if self._zygote:
            signal_group(self._zygote, signal.SIGKILL)
            _reap(self.processes, self._zygote)
            self._zygote = 0

    def close(self) -> None:
        self._lost()
        self._ended = []


def _kill_all(starter: ColdStart, ranks: Mapping[int, int]) -> None:
    starter.signal(signal.SIGKILL)
    while ranks:
        starter.ended()
        time.sleep(0.005)


def _reap(processes: Processes, pid: int) -> None:
    """Wait for a process that was killed."""
    while pid not in processes.reap():
        time.sleep(0.005)
