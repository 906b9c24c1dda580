"""Starts and stops an embedded cluster that runs in a process of its own.

Knows the process by its locks in the state folder, and imports nothing of what runs in it: these
are commands that people wait for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from swell.cluster.home import LOCK, NODE_LOCK, READY_LOCK, LockHolder, lock_holder
from swell.up.processes import end_orphans

LOG = "up.log"
READY_S = 60.0
PAUSE_S = 0.02
# Pods have 40 s to end, the parts ten more.
STOP_S = 60.0
GRACE_S = 5.0
TAIL_BYTES = 2000


class NotReadyError(Exception):
    """The cluster did not come up; `log` is where it says why, `tail` the end of that."""

    def __init__(self, reason: str, log: Path, tail: str) -> None:
        super().__init__(reason)
        self.log = log
        self.tail = tail


def is_ready(home: Path) -> bool:
    """Whether a cluster runs there with all its parts."""
    return lock_holder(home, READY_LOCK) is not None


def start(home: Path, flags: Sequence[str] = (), within_s: float = READY_S) -> None:
    """Have a cluster run in the background, and wait until it is ready; NotReadyError."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = home / LOG
    began_at = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "swell.cli.main", "up", *flags],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "SWELL_HOME": str(home)},
            start_new_session=True,
        )
    deadline = time.monotonic() + within_s
    while not is_ready(home):
        code = child.poll()
        if code and lock_holder(home) is None:
            raise NotReadyError(f"it ended with {code}", log, _tail(log, began_at))
        if time.monotonic() > deadline:
            raise NotReadyError(f"not ready after {within_s:.0f} s", log, _tail(log, began_at))
        time.sleep(PAUSE_S)
    running = lock_holder(home)
    if running is not None and running.pid != child.pid:
        # Another start was faster: ours finds that out, and goes.
        _wait(lambda: child.poll() is not None, GRACE_S)
    # It goes on without us, and is not waited for: that is no mistake to warn of.
    child.returncode = 0


def wait_ready(home: Path, within_s: float = READY_S) -> None:
    """Wait for a cluster that somebody else has started; NotReadyError."""
    if not _wait(lambda: is_ready(home), within_s):
        raise NotReadyError(f"not ready after {within_s:.0f} s", home / LOG, "")


def stop(home: Path, on_wait: Callable[[LockHolder], None]) -> bool:
    """End every process of a state folder; False when there was none.

    A node agent ends before the server that it reports to.
    """
    found = False
    for name in (NODE_LOCK, LOCK):
        running = _named(home, name)
        if running is None:
            continue
        found = True
        on_wait(running)
        _end(home, name, running.pid)
    return end_orphans(home, GRACE_S) > 0 or found


def _named(home: Path, name: str) -> LockHolder | None:
    """Who holds a lock, once it has written its pid."""
    running = lock_holder(home, name)
    while running is not None and not running.pid:
        time.sleep(PAUSE_S)
        running = lock_holder(home, name)
    return running


def _end(home: Path, name: str, pid: int) -> None:
    for number, within_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if _wait(lambda: lock_holder(home, name) is None, within_s):
            break
    _wait(lambda: not _exists(pid), GRACE_S)


def _exists(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be collected does not."""
    from swell.node.supervisor import start_mark

    return bool(start_mark(pid))


def _wait(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def _tail(log: Path, began_at: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(began_at, size - TAIL_BYTES))
        return file.read().decode(errors="replace").strip()
