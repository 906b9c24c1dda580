"""Reads the logs of containers, as a whole or in part, and the messages they end with.

A log is in files of bounded size, the oldest with the highest number. Each has an index of the
times at which its pieces came; `supervisor.output` writes both.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swell.api.times import format_micro_time
from swell.node.supervisor import LOG_FILES_MAX

if TYPE_CHECKING:  # it imports asyncio, which `swell run` does not load to read these files
    from swell.runtime.clock import Clock

POLL_S = 0.1
ENTRY_BYTES = 16
CHUNK_BYTES = 1 << 20
MESSAGE = "message"  # the file in a run's folder that a container sees at its own path
MESSAGE_BYTES_MAX = 4096  # Kubernetes' limit for one container
TAIL_LINES, TAIL_BYTES = 20, 8192
# Kubernetes' limits of the message that it takes from a log with this policy.
FALLBACK = "FallbackToLogsOnError"
FALLBACK_LINES, FALLBACK_BYTES = 80, 2048


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log. None means no limit; `since` is in seconds since the epoch."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class _LogLine:
    """A line with its end, or the beginning of one, and the time at which it came."""

    data: bytes
    at: float


def log_segments(path: Path) -> list[Path]:
    """Returns the files of a log that exist, the oldest first."""
    older = [path.with_name(f"{path.name}.{n}") for n in range(LOG_FILES_MAX - 1, 0, -1)]
    return [file for file in (*older, path) if file.exists()]


async def read_log(
    path: Path, query: LogQuery, is_live: Callable[[], bool], clock: Clock
) -> AsyncIterator[bytes]:
    """Returns the log in pieces; when following, until the container has ended."""
    budget = query.limit_bytes
    position, stamp = _end_of(path)
    for line in _wanted(path, query):
        piece = _formatted(line, query)
        if budget is not None:
            piece = piece[:budget]
            budget -= len(piece)
        yield piece
        if budget == 0:
            return
    while query.follow:
        # Asked before reading, so that nothing written before the end is missed.
        was_live = is_live()
        lines, position, stamp = _new_lines(path, position, stamp)
        for line in lines:
            yield _formatted(line, query)
        if not lines and not was_live:
            return
        if not lines:
            await clock.sleep(POLL_S)


def _wanted(path: Path, query: LogQuery) -> Iterator[_LogLine]:
    segments = log_segments(path)
    if query.tail_lines is not None:
        yield from _last(segments, query.tail_lines, query.since)
        return
    for segment in segments:
        for line in _lines(segment):
            if query.since is None or line.at >= query.since:
                yield line


def _last(segments: list[Path], n_lines: int, since: float | None) -> list[_LogLine]:
    found: list[_LogLine] = []
    for segment in reversed(segments):
        if len(found) >= n_lines:
            break
        found = [*_lines(segment), *found]
    kept = [line for line in found if since is None or line.at >= since]
    return kept[-n_lines:] if n_lines else []


def _lines(segment: Path, start: int = 0, data: bytes | None = None) -> Iterator[_LogLine]:
    """Returns the lines of a file from an offset on, or those of `data` read there already."""
    if data is None:
        try:
            data = segment.read_bytes()[start:]
        except OSError:
            return
    index = _index(segment)
    offsets = [offset for offset, _ in index]
    at = start
    for piece in data.splitlines(keepends=True) if data else ():
        place = bisect.bisect_right(offsets, at) - 1
        yield _LogLine(piece, index[place][1] if place >= 0 else 0.0)
        at += len(piece)


def _index(segment: Path) -> list[tuple[int, float]]:
    try:
        raw = segment.with_name(segment.name + ".times").read_bytes()
    except OSError:
        return []
    whole = len(raw) - len(raw) % ENTRY_BYTES
    return [
        (
            int.from_bytes(raw[place : place + 8], "little"),
            int.from_bytes(raw[place + 8 : place + 16], "little") / 1e6,
        )
        for place in range(0, whole, ENTRY_BYTES)
    ]


def _end_of(path: Path) -> tuple[int, int]:
    """Returns the size of the newest file, and its inode."""
    try:
        held = path.stat()
    except OSError:
        return 0, 0
    return held.st_size, held.st_ino


def _new_lines(path: Path, position: int, stamp: int) -> tuple[list[_LogLine], int, int]:
    """Returns what was written since, with the new position and inode.

    After a rotation the rest of the old file comes first, and the new file at the next call.
    """
    size, inode = _end_of(path)
    if stamp and inode != stamp:
        rest = list(_lines(path.with_name(f"{path.name}.1"), position))
        return rest or list(_lines(path)), size if not rest else 0, inode
    if size <= position:
        return [], position, inode or stamp
    with path.open("rb") as file:
        file.seek(position)
        data = file.read(CHUNK_BYTES)
    return list(_lines(path, position, data)), position + len(data), inode


def _formatted(line: _LogLine, query: LogQuery) -> bytes:
    if not query.timestamps:
        return line.data
    return format_micro_time(line.at).encode() + b" " + line.data


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
