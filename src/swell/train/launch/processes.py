"""The processes of a launcher: it starts them, reaps them, and signals whole process groups.

All children are reaped here, those too that were not started here: in a container the launcher
is the first process, and inherits every orphan.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from swell.train.launch.output import Destination

_CONFINED = Path(__file__).parent / "worker" / "confined.py"


class Processes:
    """The children of this process."""

    def __init__(self) -> None:
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start_confined(
        self, command: Sequence[str], environ: Mapping[str, str], destination: Destination
    ) -> int:
        """Start a program in a process group of its own, which ends with us; return its id."""
        # A new interpreter sets the bond and becomes the program: code between fork and exec
        # would run in a copy of a process with threads. -I -S: nothing of the user's is loaded.
        bond = [sys.executable, "-I", "-S", str(_CONFINED), str(os.getpid())]
        with _opened(destination.stdout) as out, _opened(destination.stderr) as err:
            return self.start(
                [*bond, *command], environ=environ, stdout=out.number, stderr=err.number
            )

    def start(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        stdout: int | None = None,
        stderr: int | None = None,
        pass_fds: Sequence[int] = (),
    ) -> int:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            process_group=0,
        )
        self._children[child.pid] = child
        return child.pid

    def reap(self) -> dict[int, int]:
        """The exit codes of our children that have ended since, by process id."""
        ended: dict[int, int] = {}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            child = self._children.pop(pid, None)
            if child is not None:
                child.returncode = os.waitstatus_to_exitcode(status)
                ended[pid] = child.returncode


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process and all that it has started and that stayed in its group."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
    if number != signal.SIGKILL:
        # A process that is stopped would not see it before it is continued.
        try:
            os.killpg(pid, signal.SIGCONT)
        except ProcessLookupError:
            return


class _opened:  # noqa: N801 (used as a function)
    """Opens a file for a child's stream; no file leaves the stream as it is."""

    def __init__(self, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.number = None if path is None else os.open(path, flags, 0o644)

    def __enter__(self) -> _opened:
        return self

    def __exit__(self, *_: object) -> None:
        if self.number is not None:
            os.close(self.number)
