"""Finds the files of a container's log, and the message that a container ends with.

A log is in files of bounded size, the oldest with the highest number. Each has an index of the
times at which its pieces came; `supervisor.output` writes both, and `logreading` reads them. The
command `swell run` loads this module, so it imports little.
"""

from __future__ import annotations

import os
from pathlib import Path

from swell.node.supervisor import LOG_FILES_MAX

ENTRY_BYTES = 16  # of the index: the offset in the file, and the time in microseconds
MESSAGE = "message"  # the file in a run's folder that a container sees at its own path
MESSAGE_BYTES_MAX = 4096  # Kubernetes' limit for one container
TAIL_LINES, TAIL_BYTES = 20, 8192
# Kubernetes' limits of the message that it takes from a log with this policy.
FALLBACK = "FallbackToLogsOnError"
FALLBACK_LINES, FALLBACK_BYTES = 80, 2048


def log_segments(path: Path) -> list[Path]:
    """Returns the files of a log that exist, the oldest first."""
    older = [path.with_name(f"{path.name}.{n}") for n in range(LOG_FILES_MAX - 1, 0, -1)]
    return [file for file in (*older, path) if file.exists()]


def termination_message(file_left: Path, log: Path, policy: str, code: int) -> str:
    """Returns the message that a container left; after a failure without one, the end of its log.

    Kubernetes takes the log only with FallbackToLogsOnError; docs/processes.md says why we do.
    """
    try:
        with file_left.open("rb") as file:
            left = file.read(MESSAGE_BYTES_MAX).decode(errors="replace")
    except OSError:
        left = ""
    if left or not code:
        return left
    if policy == FALLBACK:
        lines = _end(log, FALLBACK_BYTES).splitlines(keepends=True)
        return "".join(lines[-FALLBACK_LINES:])
    return tail(log)


def tail(log: Path) -> str:
    """Returns the last lines of a log, for a status message."""
    return "\n".join(_end(log, TAIL_BYTES).splitlines()[-TAIL_LINES:])


def _end(log: Path, n_bytes: int) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - n_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
