"""Starts and stops an embedded cluster that runs in a process of its own.

The process is known by its locks in the state folder. Nothing that runs in it is imported here:
users wait for these commands.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from swell.cluster.home import LOCK, NODE_LOCK, READY_LOCK, LockHolder, lock_holder
from swell.cluster.private import claim_home, open_private
from swell.runtime.logfile import rotate
from swell.up.processes import PAUSE_S, end_orphans, wait_until

LOG = "up.log"
READY_S = 60.0
# `assembly` gives pods 40 s to end and the parts ten more; then SIGKILL.
STOP_S = 60.0
# After SIGKILL, and for processes of containers that outlived the cluster.
GRACE_S = 5.0
# The end of the log that a failed start shows.
TAIL_BYTES = 2000


class NotReadyError(Exception):
    """The cluster did not become ready; `log` is its log file, `tail` the end of it."""

    def __init__(self, reason: str, log: Path, tail: str) -> None:
        super().__init__(reason)
        self.log = log
        self.tail = tail


def is_ready(home: Path) -> bool:
    """Whether a cluster runs there with all its parts."""
    return lock_holder(home, READY_LOCK) is not None


def start(home: Path, flags: Sequence[str] = (), within_s: float = READY_S) -> None:
    """Start a cluster in the background and wait until it is ready; NotReadyError if it fails."""
    claim_home(home)
    log = home / LOG
    rotate(log)
    began_at = log.stat().st_size if log.exists() else 0
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as out:
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
        # A child that ends because another start was faster is no failure: that one is waited for.
        code = child.poll()
        if code and lock_holder(home) is None:
            raise NotReadyError(f"it ended with {code}", log, _tail(log, began_at))
        if time.monotonic() > deadline:
            raise NotReadyError(f"not ready after {within_s:.0f} s", log, _tail(log, began_at))
        time.sleep(PAUSE_S)
    running = lock_holder(home)
    if running is not None and running.pid != child.pid:
        # Another start was faster: our child finds the lock held and ends.
        wait_until(lambda: child.poll() is not None, GRACE_S)
    # The child outlives this process. Popen would warn that it was not waited for.
    child.returncode = 0


def wait_ready(home: Path, within_s: float = READY_S) -> None:
    """Wait until a cluster is ready that another process has started; NotReadyError."""
    if not wait_until(lambda: is_ready(home), within_s):
        raise NotReadyError(f"not ready after {within_s:.0f} s", home / LOG, "")


def stop(home: Path, on_wait: Callable[[LockHolder], None]) -> bool:
    """End every process of a state folder; False when there was none.

    A node agent ends before the API server that it reports to.
    """
    found = False
    for name in (NODE_LOCK, LOCK):
        running = _holder_with_pid(home, name)
        if running is None:
            continue
        found = True
        on_wait(running)
        _end(home, name, running.pid)
    return end_orphans(home, GRACE_S) > 0 or found


def _holder_with_pid(home: Path, name: str) -> LockHolder | None:
    """Return the holder of a lock; wait until it has written its pid, which follows locking."""
    running = lock_holder(home, name)
    while running is not None and not running.pid:
        time.sleep(PAUSE_S)
        running = lock_holder(home, name)
    return running


def _end(home: Path, name: str, pid: int) -> None:
    """End the holder of a lock: by asking first, and for certain in the end."""
    from swell.node.supervisor import start_mark

    mark = start_mark(pid)
    for number, within_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait_until(lambda: lock_holder(home, name) is None, within_s):
            break
    # What holds the lock no more has written all it had to. It may still take long to exit on a
    # busy machine, or hang; its pid may be another process's by now.
    if not wait_until(lambda: start_mark(pid) != mark, GRACE_S):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: start_mark(pid) != mark, GRACE_S)


def _tail(log: Path, began_at: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < began_at:  # it has been rotated since then
            began_at = 0
        file.seek(max(began_at, size - TAIL_BYTES))
        return file.read().decode(errors="replace").strip()
