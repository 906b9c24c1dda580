"""The state folder of an embedded cluster: who runs there, and where its files are.

A running server holds a lock on a file in the folder, and writes into it who it is. The lock ends
with the process, however that ends, so nobody is ever fooled by a stale pid.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOCK = "lock"
NODE_LOCK = "node.lock"
READY_LOCK = "ready.lock"
KUBECONFIG = "kubeconfig"
SERVER = "swell server"
# Somebody who only looks whether a lock is held holds it for a moment.
LOOKED_AT_S = 0.2
PAUSE_S = 0.01


class AlreadyRunningError(Exception):
    """Another process serves this folder."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"an embedded cluster already runs in {home}")
        self.home = home


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a lock. The pid is 0 while it has not yet written its own."""

    pid: int
    what: str


@contextmanager
def hold_lock(home: Path, name: str = LOCK, what: str = SERVER) -> Iterator[None]:
    """Be the one process that serves this folder; AlreadyRunningError when there is one."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, home)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {what}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_holder(home: Path, name: str = LOCK) -> LockHolder | None:
    """Who holds a lock of this folder now."""
    try:
        descriptor = os.open(home / name, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, _, what = os.pread(descriptor, 256, 0).decode().partition(" ")
        return LockHolder(int(pid or 0), what)
    else:
        return None
    finally:
        os.close(descriptor)


def is_running(home: Path) -> bool:
    """Whether a process serves this folder now."""
    return lock_holder(home) is not None


def _lock(descriptor: int, home: Path) -> None:
    deadline = time.monotonic() + LOOKED_AT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise AlreadyRunningError(home) from error
            time.sleep(PAUSE_S)
        else:
            return
