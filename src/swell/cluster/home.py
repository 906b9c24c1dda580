"""The state folder of an embedded cluster: who runs there, and where its files are.

A running server holds a lock on a file in the folder. The lock ends with the process, however
that ends, so nobody is ever fooled by a stale pid.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "lock"
KUBECONFIG = "kubeconfig"


class AlreadyRunningError(Exception):
    """Another process serves this folder."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"an embedded cluster already runs in {home}")
        self.home = home


@contextmanager
def held(home: Path, name: str = LOCK) -> Iterator[None]:
    """Be the one process that serves this folder; AlreadyRunningError when there is one."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunningError(home) from error
        yield
    finally:
        os.close(descriptor)


def is_running(home: Path) -> bool:
    """Whether a process serves this folder now."""
    if not (home / LOCK).exists():
        return False
    try:
        with held(home):
            return False
    except AlreadyRunningError:
        return True
