"""Reads a part of a container's log in pieces of bounded size, off the event loop.

The files of a log are read as one text, the oldest first. The beginning of the part is found by
seeking: the last lines from the end backwards, a time by a binary search in the index of times. A
reader holds its files open, so that a rotation meanwhile takes nothing away from it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from swell.api.times import format_micro_time
from swell.node.process.logfiles import ENTRY_BYTES, log_segments
from swell.node.supervisor import LOG_INDEX
from swell.runtime.clock import Clock

R = TypeVar("R")

POLL_S = 0.1
PIECE_BYTES = 256 << 10
# With a time before every line, empty lines become 28 times as long.
STAMPED_BYTES = 16 << 10
# Index entries that are read at once.
INDEX_BYTES = ENTRY_BYTES << 10


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log. None means no limit; `since` is in seconds since the epoch."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: float | None = None


async def read_log(
    path: Path, query: LogQuery, is_live: Callable[[], bool], clock: Clock
) -> AsyncGenerator[bytes]:
    """Returns the log in pieces; when following, until the container has ended.

    Close it when it is not read to its end: it holds the files open.
    """
    reader = LogReader(path, query)
    try:
        while True:
            # Asked before reading, so that nothing written before the end is missed.
            was_live = is_live()
            piece = await _in_thread(reader.read)
            if piece:
                yield piece
            elif reader.is_spent or not query.follow or not was_live:
                return
            else:
                await clock.sleep(POLL_S)
    finally:
        reader.close()


async def _in_thread(call: Callable[[], R]) -> R:
    """Returns the result of a call in a thread. A cancelled caller waits until it has returned.

    The caller closes the files that the call reads.
    """
    work = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


class LogReader:
    """The position in one log. Every method blocks for the time of one piece at most.

    The first `read` finds the beginning. A reader that does not follow ends where the log ended
    then, so that a container that writes faster than its client reads is no endless answer.
    """

    def __init__(self, path: Path, query: LogQuery) -> None:
        self._path = path
        self._query = query
        self._budget = query.limit_bytes
        self._segments: list[_Segment] = []
        self._has_begun = False
        self._offset = 0  # in the first segment: those that are read are closed
        self._at_line_start = True

    @property
    def is_spent(self) -> bool:
        """Whether the limit of bytes is reached."""
        return self._budget is not None and self._budget <= 0

    def read(self) -> bytes:
        """Returns the next piece; nothing at the present end of the log."""
        if not self._has_begun:
            self._begin()
        if self.is_spent:
            return b""
        piece = self._next()
        if self._budget is not None:
            piece = piece[: self._budget]
            self._budget -= len(piece)
        return piece

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
        self._segments = []

    def _begin(self) -> None:
        self._has_begun = True
        self._segments = _opened(self._path, [])
        start = _Position(0, 0)
        if self._query.since is not None:
            start = _first_since(self._segments, self._query.since)
        if self._query.tail_lines is not None:
            start = max(start, _tail_start(self._segments, self._query.tail_lines))
        self._offset = start.offset
        self._at_line_start = _byte_before(self._segments, start) in {b"", b"\n"}
        for segment in self._segments[: start.place]:
            segment.close()
        del self._segments[: start.place]

    def _next(self) -> bytes:
        if self._query.follow and len(self._segments) < 2:
            # Looked for before reading on: what was written before the rotation comes first.
            self._segments += _opened(self._path, self._segments)
        while self._segments:
            if data := self._read_from(self._segments[0]):
                return data
            if len(self._segments) == 1:
                break
            self._segments.pop(0).close()
            self._offset = 0
        return b""

    def _read_from(self, segment: _Segment) -> bytes:
        n_bytes = STAMPED_BYTES if self._query.timestamps else PIECE_BYTES
        if not self._query.follow:
            n_bytes = min(n_bytes, segment.size - self._offset)
        data = os.pread(segment.file, n_bytes, self._offset) if n_bytes > 0 else b""
        shown = self._stamped(segment, data) if self._query.timestamps else data
        self._offset += len(data)
        return shown

    def _stamped(self, segment: _Segment, data: bytes) -> bytes:
        """Returns the data with a time before every line that begins in it."""
        shown: list[bytes] = []
        done = 0
        while done < len(data):
            at, until = segment.time_at(self._offset + done)
            part = data[done : until - self._offset] if until else data[done:]
            stamp = format_micro_time(at).encode() + b" "
            if self._at_line_start:
                shown.append(stamp)
            # The break that ends the part begins a line of a later part.
            shown += (part[:-1].replace(b"\n", b"\n" + stamp), part[-1:])
            self._at_line_start = part.endswith(b"\n")
            done += len(part)
        return b"".join(shown)


class _Segment:
    """One open file of a log, with its index. `size` is the size when it was opened."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError when a rotation has renamed the file meanwhile."""
        flags = os.O_RDONLY | os.O_CLOEXEC
        self.file = os.open(path, flags)
        held = os.fstat(self.file)
        self.inode, self.size = held.st_ino, held.st_size
        try:
            self._index = os.open(f"{path}{LOG_INDEX}", flags)
        except FileNotFoundError:
            self._index = -1
        self._entries: list[tuple[int, float]] = []  # a part of the index, around the last time
        self._first = 0  # the number of the first of these

    def close(self) -> None:
        for descriptor in (self.file, self._index):
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def n_entries(self) -> int:
        return os.fstat(self._index).st_size // ENTRY_BYTES if self._index >= 0 else 0

    def entry(self, number: int) -> tuple[int, float]:
        """Returns the offset and the time of an index entry; they are read many at once."""
        if not self._first <= number < self._first + len(self._entries):
            self._first = number
            raw = os.pread(self._index, INDEX_BYTES, number * ENTRY_BYTES)
            whole = len(raw) - len(raw) % ENTRY_BYTES
            self._entries = [_entry(raw, at) for at in range(0, whole, ENTRY_BYTES)]
        return self._entries[number - self._first]

    def time_at(self, offset: int) -> tuple[float, int]:
        """Returns when the byte came, and the offset at which the next time begins; 0 for none."""
        found = self._count_until(lambda entry: entry[0] <= offset)
        at = self.entry(found - 1)[1] if found else 0.0
        return at, self.entry(found)[0] if found < self.n_entries else 0

    def offset_since(self, since: float) -> int | None:
        """Returns where the output of this time or later begins; None when there is none."""
        found = self._count_until(lambda entry: entry[1] < since)
        return self.entry(found)[0] if found < self.n_entries else None

    def _count_until(self, is_before: Callable[[tuple[int, float]], bool]) -> int:
        """Returns how many entries come before the first for which the condition does not hold."""
        low, high = 0, self.n_entries
        # The entries at hand are tried first: a log is mostly read in order.
        if self._entries and is_before(self._entries[0]):
            if is_before(self._entries[-1]):
                low = self._first + len(self._entries)
            else:
                low, high = self._first + 1, min(high, self._first + len(self._entries) - 1)
        while low < high:
            middle = (low + high) // 2
            # One entry alone: a search over the whole index must not read all of it.
            if is_before(self._single(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _single(self, number: int) -> tuple[int, float]:
        if self._first <= number < self._first + len(self._entries):
            return self._entries[number - self._first]
        return _entry(os.pread(self._index, ENTRY_BYTES, number * ENTRY_BYTES), 0)


@dataclass(frozen=True, slots=True, order=True)
class _Position:
    """A place in a log: the number of a segment, and the offset in it."""

    place: int
    offset: int


def _entry(raw: bytes, at: int) -> tuple[int, float]:
    offset = int.from_bytes(raw[at : at + 8], "little")
    return offset, int.from_bytes(raw[at + 8 : at + 16], "little") / 1e6


def _opened(path: Path, known: list[_Segment]) -> list[_Segment]:
    """Opens the files of a log that come after the known ones, the oldest first.

    The newest is opened first. A rotation meanwhile only renames files to older names: one may be
    found twice, but none is missed.
    """
    if known and _inode(path) == known[-1].inode:
        return []
    inodes = {segment.inode for segment in known}
    found: list[_Segment] = []
    for file in reversed(log_segments(path)):
        try:
            segment = _Segment(file)
        except FileNotFoundError:
            continue
        if known and segment.inode == known[-1].inode:
            segment.close()
            break
        if segment.inode in inodes:
            segment.close()
            continue
        inodes.add(segment.inode)
        found.insert(0, segment)
    return found


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _end(segments: list[_Segment]) -> _Position:
    return _Position(len(segments) - 1, segments[-1].size) if segments else _Position(0, 0)


def _first_since(segments: list[_Segment], since: float) -> _Position:
    """Returns the beginning of the first line that came at this time or later."""
    for place, segment in enumerate(segments):
        offset = segment.offset_since(since)
        if offset is not None:
            return _line_start(segments, _Position(place, min(offset, segment.size)))
    return _end(segments)


def _line_start(segments: list[_Segment], position: _Position) -> _Position:
    """Returns the position itself where a line begins, else the beginning of the next line."""
    place, offset = position.place, position.offset
    before = _byte_before(segments, position)
    if before in {b"", b"\n"}:
        return position
    while place < len(segments):
        segment = segments[place]
        while offset < segment.size:
            data = os.pread(segment.file, min(PIECE_BYTES, segment.size - offset), offset)
            found = data.find(b"\n")
            if found >= 0:
                return _Position(place, offset + found + 1)
            if not data:
                break
            offset += len(data)
        place, offset = place + 1, 0
    return _end(segments)


def _byte_before(segments: list[_Segment], position: _Position) -> bytes:
    """Returns the last byte before a position; none at the beginning of the log."""
    if position.offset:
        return os.pread(segments[position.place].file, 1, position.offset - 1)
    for segment in reversed(segments[: position.place]):
        if segment.size:
            return os.pread(segment.file, 1, segment.size - 1)
    return b""


def _tail_start(segments: list[_Segment], n_lines: int) -> _Position:
    """Returns the beginning of the last lines. A last line without an end counts as one."""
    end = _end(segments)
    if not n_lines:
        return end
    # The break that ends the last line begins no other one.
    missing = n_lines + (_byte_before(segments, end) == b"\n")
    for place in range(len(segments) - 1, -1, -1):
        offset = segments[place].size
        while offset > 0:
            start = max(0, offset - PIECE_BYTES)
            data = os.pread(segments[place].file, offset - start, start)
            n_breaks = data.count(b"\n")
            if n_breaks >= missing:
                found = len(data)
                for _ in range(missing):
                    found = data.rfind(b"\n", 0, found)
                return _Position(place, start + found + 1)
            missing -= n_breaks
            offset = start
    return _Position(0, 0)
