"""Runs `swell` commands on a terminal of their own, as a person at a keyboard does."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

SWELL = (sys.executable, "-m", "swell.cli.main")
WITHIN_S = 60.0


@dataclass
class Terminal:
    """One command on a terminal. `seen` is everything that it has shown so far."""

    process: subprocess.Popen[bytes]
    screen: int
    seen: str = ""

    def type(self, keys: str) -> None:
        os.write(self.screen, keys.encode())

    def until(self, text: str) -> None:
        """Wait until a text is shown."""
        deadline = time.monotonic() + WITHIN_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if not self._read():
                break
        assert text in self.seen, self.seen

    def ends(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(WITHIN_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.screen], [], [], WITHIN_S)
        assert ready, self.seen
        try:
            part = os.read(self.screen, 65536)
        except OSError:  # EIO: the last process on the terminal has closed it
            return False
        self.seen += part.decode(errors="replace").replace("\r\n", "\n")
        return bool(part)


@contextmanager
def on_terminal(*arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Begin a command whose standard streams are one terminal, its controlling one."""
    screen, side = pty.openpty()
    process = subprocess.Popen(
        [*SWELL, *arguments],
        stdin=side,
        stdout=side,
        stderr=side,
        env={**os.environ, "TERM": "xterm", **(environ or {})},
        start_new_session=True,
        preexec_fn=_control,  # noqa: PLW1509
    )
    os.close(side)
    try:
        yield Terminal(process, screen)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(screen)


def _control() -> None:
    """Make stdin the controlling terminal, so that Ctrl-C typed there is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
