"""The state folder of an embedded cluster: its locks, and the names of its files.

A running process holds a lock on a file in the folder and writes its pid and role into it. The lock
ends with the process, even if it is killed, so that a stale pid is never taken for a running one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swell.cluster.private import claim_home, open_private, tighten_content

LOCK = "lock"
NODE_LOCK = "node.lock"
READY_LOCK = "ready.lock"
KUBECONFIG = "kubeconfig"
DATABASE = "store.db"
SERVER = "swell server"
# `lock_holder` takes a lock for a moment to see whether it is free, so a first failure is retried.
RETRY_S = 0.2
PAUSE_S = 0.01


class AlreadyRunningError(Exception):
    """Another process serves this folder."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"an embedded cluster already runs in {home}")
        self.home = home


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a lock. The pid is 0 until the process has written its own."""

    pid: int
    what: str


@contextmanager
def hold_lock(home: Path, name: str = LOCK, what: str = SERVER) -> Iterator[None]:
    """Hold a lock of this folder; AlreadyRunningError when another process has it.

    The folder is for its owner alone from then on, with everything in it. ForeignFolderError when
    it belongs to another user.
    """
    claim_home(home)
    # Not inherited: a child process with the descriptor would keep the lock.
    descriptor = open_private(home / name, os.O_RDWR)
    try:
        _lock(descriptor, home)
        if name != READY_LOCK:  # which a process takes that holds another one already
            tighten_content(home)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {what}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_holder(home: Path, name: str = LOCK) -> LockHolder | None:
    """The process that holds a lock of this folder now; None when the lock is free."""
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


def has_been_used(home: Path) -> bool:
    """Whether this folder has had a cluster.

    The kubeconfig is written when the first objects are on disk, so it never precedes the store.
    """
    return (home / KUBECONFIG).exists()


def _lock(descriptor: int, home: Path) -> None:
    deadline = time.monotonic() + RETRY_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise AlreadyRunningError(home) from error
            time.sleep(PAUSE_S)
        else:
            return
