"""One run of a container: its supervisor, what that tells, and signals to it.

Told by a pipe while the agent that started it lives; a later agent finds it by pid and start time
and learns from files. Knows nothing of pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.node import supervisor
from swell.node.process.launcher import Launcher
from swell.node.runs import KILLED_CODE, LOST, Exited
from swell.runtime.clock import Clock

POLL_S = 0.25
CHUNK_BYTES = 65536
OOM_KILLED = "OOMKilled"

SpecFields = dict[str, object]


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, told from later ones with its pid."""

    pid: int
    mark: str

    @property
    def is_alive(self) -> bool:
        return bool(self.mark) and supervisor.start_mark(self.pid) == self.mark


class Supervised:
    """See the module's docstring. `on_change` is called when it has started and when it ended.

    `has_run_out` says whether the kernel has killed it for want of memory, `last_words` what it
    has to say for itself, by its exit code.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        on_change: Callable[[], None],
        has_run_out: Callable[[], bool] = lambda: False,
        last_words: Callable[[int], str] = lambda _: "",
    ) -> None:
        self.folder = folder
        self.started_at: float | None = None
        self.ended: Exited | None = None
        self.refusal = ""  # why the supervisor did not begin
        self.is_out_of_memory = False
        self.process: ProcessIdentity | None = None
        self._clock = clock
        self._on_change = on_change
        self._has_run_out = has_run_out
        self._last_words = last_words
        self._supervisor: ProcessIdentity | None = None
        self._told = b""
        self._exit_line = ""
        self._started = asyncio.Event()
        self._descriptor = -1
        self._timer: asyncio.TimerHandle | None = None

    # -- beginning ---------------------------------------------------------------------------

    def begin(self, launcher: Launcher, order: SpecFields) -> None:
        """Start a supervisor on an order, unless the folder has one already.

        It may, when an earlier try got no answer; its order is withdrawn, or it is taken up.
        """
        (self.folder / supervisor.ORDER).unlink(missing_ok=True)
        known = _read_identity(self.folder / supervisor.IDENTITY)
        if known is not None and known.is_alive:
            self.resume()
            return
        (self.folder / supervisor.ORDER).write_bytes(marshal.dumps(order))
        receive, send = os.pipe()
        try:
            pid = launcher.launch(self.folder, send)
        except OSError:
            os.close(receive)
            raise
        finally:
            os.close(send)
        self._supervisor = ProcessIdentity(pid, supervisor.start_mark(pid))
        os.set_blocking(receive, False)
        self._follow(receive, self._on_report)

    def resume(self) -> bool:
        """Take up a run that an earlier agent began; False when it had not come to beginning."""
        if not (self.folder / supervisor.IDENTITY).exists():
            # Withdraw the order first: a supervisor that is about to begin looks for it again
            # after having said who it is.
            (self.folder / supervisor.ORDER).unlink(missing_ok=True)
        self._supervisor = _read_identity(self.folder / supervisor.IDENTITY)
        if self._supervisor is None:
            return False
        started = _words(self.folder / supervisor.STARTED)
        if len(started) == 3:
            self._on_started(*started)
        if (self.folder / supervisor.EXIT).exists() or not self._is_supervised:
            self._on_end()
        elif hasattr(os, "pidfd_open"):
            try:
                self._follow(os.pidfd_open(self._supervisor.pid), self._on_end)
            except ProcessLookupError:
                self._on_end()
        else:
            self._poll()
        return True

    async def wait_started(self, within_s: float) -> None:
        """Until it runs or has failed to, but not longer than this."""
        try:
            async with asyncio.timeout(within_s):
                await self._started.wait()
        except TimeoutError:
            return

    # -- ending ------------------------------------------------------------------------------

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGUSR1)

    def close(self) -> None:
        """Stop following; the processes go on."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _is_supervised(self) -> bool:
        return self._supervisor is not None and self._supervisor.is_alive

    def _signal(self, number: int) -> None:
        held = self._supervisor
        if self.ended is None and held is not None:
            supervisor.signal_exactly(held.pid, held.mark, number)

    # -- being told --------------------------------------------------------------------------

    def _follow(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._descriptor = descriptor
        asyncio.get_running_loop().add_reader(descriptor, callback)

    def _on_report(self) -> None:
        data = os.read(self._descriptor, CHUNK_BYTES)
        self._told += data
        *lines, self._told = self._told.split(b"\n")
        for line in lines:
            kind, _, rest = line.decode().partition(" ")
            if kind == "started":
                # The mark is empty when it has ended before anybody could look at it.
                self._on_started(*rest.split(" "))
                self._on_change()
            elif kind == "refused":
                self.refusal = rest
            else:
                self._exit_line = rest
        if not data:
            self._on_end()

    def _on_started(self, pid: str, mark: str, at: str) -> None:
        self.process = ProcessIdentity(int(pid), mark)
        self.started_at = float(at)
        self._started.set()

    def _on_end(self) -> None:
        self.close()
        words = self._exit_line.split(" ") if self._exit_line else []
        self.ended = self._exited(words or _words(self.folder / supervisor.EXIT))
        self._started.set()
        self._on_change()

    def _poll(self) -> None:
        if self._is_supervised:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)
        else:
            self._on_end()

    def _exited(self, words: list[str]) -> Exited:
        if len(words) < 4:
            return self._lost()
        code, number = int(words[0]), int(words[1])
        reason = words[4] if len(words) > 4 else ""
        if code == KILLED_CODE and (self.is_out_of_memory or self._has_run_out()):
            reason = OOM_KILLED
        message = self._last_words(code)
        return Exited(code, float(words[2]), float(words[3]), reason, message, number)

    def _lost(self) -> Exited:
        """The supervisor was killed. What it watched over must not go on unwatched."""
        if self.process is not None and self.process.is_alive:
            with contextlib.suppress(ProcessLookupError):  # it may go by itself just now
                os.killpg(self.process.pid, signal.SIGKILL)
        now = self._clock.now()
        message = "the container's supervisor is gone and left no exit code"
        return Exited(KILLED_CODE, self.started_at or now, now, LOST, message)


def _read_identity(path: Path) -> ProcessIdentity | None:
    words = _words(path)
    return ProcessIdentity(int(words[0]), words[1]) if len(words) == 2 else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split(" ")
    except OSError:
        return []
