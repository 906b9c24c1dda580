"""Child processes of the testbed: in a session of their own, logged to a file, always ended.

Knows nothing of Kubernetes, and signals no process but the ones it started itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

LOG_LINES_SHOWN = 15


class ProcessEndedError(Exception):
    """A process that should have kept running is gone; carries the end of its log."""

    def __init__(self, name: str, returncode: int, log_tail: str) -> None:
        super().__init__(f"{name} ended with {returncode}; its last lines:\n{log_tail}")
        self.name = name
        self.returncode = returncode
        self.log_tail = log_tail


class ChildProcess:
    """One running program. The thread that starts it must live as long as it is needed."""

    def __init__(self, name: str, command: Sequence[str], log_file: Path) -> None:
        self.name = name
        self.log_file = log_file
        with log_file.open("ab") as log:
            self._popen = subprocess.Popen(
                [*dies_with_parent(signal.SIGKILL), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=log_file.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def check_running(self) -> None:
        """Raise with the reason the program itself gave if it has ended."""
        returncode = self._popen.poll()
        if returncode is not None:
            raise ProcessEndedError(self.name, returncode, self.log_tail())

    def log_tail(self) -> str:
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES_SHOWN:])

    def stop(self, *, grace_s: float) -> None:
        """End the program: politely, then by force. Returns when it is gone."""
        try:
            if self._popen.poll() is None:
                self._popen.terminate()
                self._popen.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill()

    def _kill(self) -> None:
        if self._popen.poll() is None:
            # The session is ours alone, so its group holds this program and its own children.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


def free_loopback_ports(n_ports: int) -> list[int]:
    """Distinct ports nobody listens on. Somebody may take one before its user does."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(n_ports)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def dies_with_parent(number: signal.Signals) -> list[str]:
    """A prefix that has the kernel signal the program when a killed test run cannot do it."""
    way = ["setpriv", "--pdeathsig", number.name.removeprefix("SIG"), "--"]
    return way if shutil.which("setpriv") else []
