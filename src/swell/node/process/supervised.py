"""One run of a container: its supervisor, the reports of that, and the signals to it.

The agent that starts a supervisor gets its reports through a pipe. A later agent finds the
supervisor by pid and start mark, and reads the files that it has written. Knows nothing of pods.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.cluster.private import open_private
from swell.node import supervisor
from swell.node.process.launcher import Launcher
from swell.node.process.orphans import kill_run
from swell.node.runs import KILLED_CODE, LOST, Exited
from swell.runtime.clock import Clock

# How often a supervisor is looked for on systems that cannot wait for a process of others.
POLL_S = 0.25
CHUNK_BYTES = 65536
OOM_KILLED = "OOMKilled"

# The fields of a supervisor.RunSpec, as they are marshalled into the spec file.
SpecFields = dict[str, object]


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, distinguished from later ones with its pid by its start mark."""

    pid: int
    mark: str

    @property
    def is_alive(self) -> bool:
        return bool(self.mark) and supervisor.start_mark(self.pid) == self.mark


class SupervisedRun:
    """A supervisor and its process. `on_change` is called when the process starts and ends.

        new --start()--> supervised --"started"--> running --"exit"------------------> ended
         |                   |                        +------the supervisor is gone----> ended
         |                   +--"refused": `refusal` is set----------------------------> ended
         +--resume(), by a later agent: supervised, running or ended, as the files say

    `has_oom_kill` tells whether the kernel has killed the process for want of memory, and
    `termination_message` returns the message of a process with that exit code.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        on_change: Callable[[], None],
        has_oom_kill: Callable[[], bool] = lambda: False,
        termination_message: Callable[[int], str] = lambda _: "",
    ) -> None:
        self.folder = folder
        self.started_at: float | None = None
        self.ended: Exited | None = None
        self.refusal = ""  # the reason for which the supervisor did not start the process
        self.is_out_of_memory = False
        self.why_killed = ""  # the reason for which the agent killed it, if it did
        self.process: ProcessIdentity | None = None
        self._clock = clock
        self._on_change = on_change
        self._has_oom_kill = has_oom_kill
        self._termination_message = termination_message
        self._supervisor: ProcessIdentity | None = None
        self._unread = b""  # the beginning of a line that is not complete yet
        self._exit_line = ""
        self._started = asyncio.Event()
        self._descriptor = -1
        self._timer: asyncio.TimerHandle | None = None

    # -- starting ----------------------------------------------------------------------------

    def start(self, launcher: Launcher, spec: SpecFields) -> None:
        """Start a supervisor, unless the folder has one already.

        It may have one when an earlier attempt got no answer from the launcher. That attempt's
        spec is withdrawn first: either its supervisor never starts the process, or it has written
        its identity and is taken over.
        """
        (self.folder / supervisor.SPEC_FILE).unlink(missing_ok=True)
        known = _read_identity(self.folder / supervisor.IDENTITY_FILE)
        if known is not None and known.is_alive:
            self.resume()
            return
        with os.fdopen(open_private(self.folder / supervisor.SPEC_FILE, os.O_WRONLY), "wb") as file:
            file.write(marshal.dumps(spec))
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
        """Take over a run that an earlier agent started; False when nothing was started."""
        if not (self.folder / supervisor.IDENTITY_FILE).exists():
            # Withdraw the spec before looking again: a supervisor that is about to start looks
            # for the spec again after it has written its identity.
            (self.folder / supervisor.SPEC_FILE).unlink(missing_ok=True)
        self._supervisor = _read_identity(self.folder / supervisor.IDENTITY_FILE)
        if self._supervisor is None:
            return False
        started = _fields(self.folder / supervisor.STARTED_FILE)
        if len(started) == 3:
            self._on_started(*started)
        if (self.folder / supervisor.EXIT_FILE).exists() or not self._is_supervised:
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
        """Wait until the process runs or could not be started, but not longer than this."""
        try:
            async with asyncio.timeout(within_s):
                await self._started.wait()
        except TimeoutError:
            return

    # -- ending ------------------------------------------------------------------------------

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGUSR1)  # the supervisor kills the process group

    def kill_supervisor(self) -> None:
        """Kill a supervisor that does not react, with everything below it.

        The children are found before: orphans of a dead supervisor are nobody's descendants.
        """
        target = self._supervisor
        if self.ended is not None or target is None or not target.is_alive:
            return
        children = supervisor.children_by_parent(supervisor.process_table())
        below = supervisor.descendants(children, target.pid)
        supervisor.signal_exactly(target.pid, target.mark, signal.SIGKILL)
        supervisor.send_all(below, signal.SIGKILL)

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid if self._supervisor is not None else 0

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
        target = self._supervisor
        if self.ended is None and target is not None:
            supervisor.signal_exactly(target.pid, target.mark, number)
            # A container of the same user may have stopped it.
            supervisor.signal_exactly(target.pid, target.mark, signal.SIGCONT)

    # -- reports -----------------------------------------------------------------------------

    def _follow(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._descriptor = descriptor
        asyncio.get_running_loop().add_reader(descriptor, callback)

    def _on_report(self) -> None:
        data = os.read(self._descriptor, CHUNK_BYTES)
        self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            kind, _, rest = line.decode().partition(" ")
            if kind == "started":
                # The mark is empty when the process has ended before the supervisor read it.
                self._on_started(*rest.split(" "))
                self._on_change()
            elif kind == "refused":
                self.refusal = rest
            else:
                self._exit_line = rest
        if not data:  # the supervisor has closed the pipe, so it has ended
            self._on_end()

    def _on_started(self, pid: str, mark: str, at: str) -> None:
        self.process = ProcessIdentity(int(pid), mark)
        self.started_at = float(at)
        self._started.set()

    def _on_end(self) -> None:
        self.close()
        fields = self._exit_line.split(" ") if self._exit_line else []
        self.ended = self._exited(fields or _fields(self.folder / supervisor.EXIT_FILE))
        self._started.set()
        self._on_change()

    def _poll(self) -> None:
        if self._is_supervised:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)
        else:
            self._on_end()

    def _exited(self, fields: list[str]) -> Exited:
        """Returns the end that the fields of an exit line or file describe."""
        if len(fields) < 4:
            return self._lost()
        code, number = int(fields[0]), int(fields[1])
        reason = fields[4] if len(fields) > 4 else ""
        if code == KILLED_CODE and (self.is_out_of_memory or self._has_oom_kill()):
            reason = OOM_KILLED
        message = self.why_killed or self._termination_message(code)
        return Exited(code, float(fields[2]), float(fields[3]), reason, message, number)

    def _lost(self) -> Exited:
        """Returns the end of a run whose supervisor was killed, and kills all its processes.

        They must not go on without a supervisor: nothing would record how they end.
        """
        kill_run(self.folder)
        now = self._clock.now()
        message = "the container's supervisor is gone and left no exit code"
        return Exited(KILLED_CODE, self.started_at or now, now, LOST, message)


def _read_identity(path: Path) -> ProcessIdentity | None:
    fields = _fields(path)
    return ProcessIdentity(int(fields[0]), fields[1]) if len(fields) == 2 else None


def _fields(path: Path) -> list[str]:
    """Returns the fields of a protocol file; none when there is no such file."""
    try:
        return path.read_text().split(" ")
    except OSError:
        return []
