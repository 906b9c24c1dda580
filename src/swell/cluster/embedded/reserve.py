"""Room on the disk that is kept for the day on which there is none.

A file of a fixed size lies beside the store. When the disk is full it is removed, so that deletions
and the changes that go with them can still be written; creations are refused from then on, since
they would use the room up. When there is enough room again, the file is made anew:

    held --- the disk refuses a write ---> released --- room for it again ---> held
      creations are taken, unless            creations are refused, the rest
      there is next to no room               is written
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

# Enough for some hundred deletions with their finalizers and statuses before the first checkpoint.
RESERVE_BYTES = 2 << 20
# Below this nothing is created: what is left is for the writes of what exists already.
FREE_BYTES_MIN = 256 << 10
# For how long a look at the disk is good; writes are more frequent than that.
LOOK_S = 0.05


def free_bytes(folder: Path) -> int | None:
    """The room that this user has on a disk; None where the file system does not tell."""
    found = os.statvfs(folder)
    if not found.f_blocks:
        return None
    # A part of some disks is for root alone.
    n_blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return n_blocks * found.f_frsize


class Reserve:
    """The reserve file of one store. Its methods take microseconds, but for making the file."""

    def __init__(
        self,
        path: Path,
        *,
        free: Callable[[Path], int | None] = free_bytes,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._free = free
        self._monotonic = monotonic
        self._looked_at = float("-inf")
        self._is_low = False
        self.is_held = False

    def try_hold(self) -> bool:
        """Make the file if there is room for it and more; whether there is one now."""
        if self._has_size():
            self.is_held = True
            return True
        room = self._free(self._path.parent)
        if room is not None and room < RESERVE_BYTES + 2 * FREE_BYTES_MIN:
            self.is_held = False
            return False
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)
        except OSError:
            # A quota, or a file system that cannot promise room: then there is no reserve.
            self.release()
        else:
            self.is_held = True
        return self.is_held

    def release(self) -> bool:
        """Give the room to the store; False when it had been given already."""
        was_held = self.is_held or self._has_size()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self.is_held = False
        return was_held

    def refuses_creations(self) -> bool:
        """Whether the room that is left must not be used up by new objects."""
        now = self._monotonic()
        if now - self._looked_at > LOOK_S:
            self._looked_at = now
            room = self._free(self._path.parent)
            needed = FREE_BYTES_MIN if self.is_held else RESERVE_BYTES + 2 * FREE_BYTES_MIN
            self._is_low = room is not None and room < needed
        return self._is_low

    def _has_size(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            found = self._path.stat()
            return found.st_size >= RESERVE_BYTES and found.st_blocks * 512 >= RESERVE_BYTES // 2
        return False
