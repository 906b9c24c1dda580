"""A log file of bounded size: repeated lines are folded, and full files are rotated.

The file is the standard error of its process: what the interpreter or a library writes there goes
into it, too. Rotation therefore replaces the descriptors, not only a stream:

    up.log --- larger than the bound ---> up.log.1 ---> up.log.2 ---> up.log.3 ---> removed
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

LOG_BYTES_MAX = 4 << 20
N_FORMER_MAX = 3
# A line that comes again within this time is counted, not written.
FOLD_S = 30.0
# Different lines that are remembered for that.
FOLDED_LINES_MAX = 256


def rotate(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Give a log that is too large another name, and drop the oldest; whether it was too large."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size < bytes_max:
            return False
        for n in range(N_FORMER_MAX - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                _former(path, n).replace(_former(path, n + 1))
        path.replace(_former(path, 1))
        return True
    return False


def _former(path: Path, n: int) -> Path:
    return path.with_name(f"{path.name}.{n}")


class FoldingHandler(logging.StreamHandler[TextIO]):
    """Writes log lines to a stream, but equal ones once in a while only, with their number."""

    def __init__(
        self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream or sys.stderr)
        self._monotonic = monotonic
        # By content: when the line was written, how often it came since then, and the last one.
        self._seen: OrderedDict[object, tuple[float, int, logging.LogRecord]] = OrderedDict()

    def emit(self, record: logging.LogRecord) -> None:
        now = self._monotonic()
        self._write_counts(now - FOLD_S)
        key = _content(record)
        if key in self._seen:
            written_at, n_more, _ = self._seen[key]
            self._seen[key] = (written_at, n_more + 1, record)
            return
        super().emit(record)
        self._seen[key] = (now, 0, record)
        if len(self._seen) > FOLDED_LINES_MAX:
            self._write_count(self._seen.popitem(last=False)[1])

    def close(self) -> None:
        """Write the counts that are still held back."""
        self._write_counts(float("inf"))
        super().close()

    def _write_counts(self, until: float) -> None:
        """Forget the lines that were written before a time; the oldest come first."""
        while self._seen:
            key, seen = next(iter(self._seen.items()))
            if seen[0] > until:
                return
            del self._seen[key]
            self._write_count(seen)

    def _write_count(self, seen: tuple[float, int, logging.LogRecord]) -> None:
        _, n_more, record = seen
        if not n_more:
            return
        if n_more > 1:
            times = f"… {n_more} times more: "
            record = logging.makeLogRecord(record.__dict__)
            if isinstance(record.msg, dict):
                record.msg = {**record.msg, "event": f"{times}{record.msg.get('event', '')}"}
            else:
                record.msg = f"{times}{record.msg}"
        super().emit(record)


class RotatedErrorHandler(FoldingHandler):
    """Writes to standard error, which is a log file, and rotates that file."""

    def __init__(self, path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._bytes_max = bytes_max

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            if os.fstat(sys.stderr.fileno()).st_size >= self._bytes_max:
                self._rotate()
        except OSError:
            # A full disk, or a folder that is gone: the log goes on where it is.
            self.handleError(record)

    def _rotate(self) -> None:
        if not rotate(self._path, self._bytes_max):
            return
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        for standard in (sys.stdout, sys.stderr):
            standard.flush()
            os.dup2(descriptor, standard.fileno())
        os.close(descriptor)


def handler_for(path: Path) -> logging.StreamHandler[TextIO]:
    """The handler for standard error, which rotates it if it is this log file."""
    try:
        is_log = os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError):
        is_log = False
    return RotatedErrorHandler(path) if is_log else FoldingHandler(sys.stderr)


def _content(record: logging.LogRecord) -> object:
    """A record without its time."""
    if isinstance(record.msg, dict):
        fields = {name: value for name, value in record.msg.items() if name != "time"}
        return record.name, record.levelno, repr(fields)
    return record.name, record.levelno, record.getMessage()
