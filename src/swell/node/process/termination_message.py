"""The message of a container that has ended: what it has left in a file, or the end of its log."""

from __future__ import annotations

import os
from pathlib import Path

MESSAGE = "message"  # the file in a run's folder that a container sees at its own path
NOTE_BYTES_MAX = 4096
TAIL_LINES, TAIL_BYTES = 20, 8192
# What Kubernetes shows of a log when it is asked to.
FALLBACK = "FallbackToLogsOnError"
FALLBACK_LINES, FALLBACK_BYTES = 80, 2048


def last_words(note: Path, log: Path, policy: str, code: int) -> str:
    """The message; of a failure that left none, the last lines of its log."""
    try:
        with note.open("rb") as file:
            left = file.read(NOTE_BYTES_MAX).decode(errors="replace")
    except OSError:
        left = ""
    if left or not code:
        return left
    if policy == FALLBACK:
        lines = _end(log, FALLBACK_BYTES).splitlines(keepends=True)
        return "".join(lines[-FALLBACK_LINES:])
    return tail(log)


def tail(log: Path) -> str:
    """The last lines of a log, for a status message."""
    return "\n".join(_end(log, TAIL_BYTES).splitlines()[-TAIL_LINES:])


def _end(log: Path, n_bytes: int) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - n_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
