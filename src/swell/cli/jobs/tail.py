"""Follows a growing log on disk, through its rotation, one whole line at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from swell.node.process.logfiles import log_segments

CHUNK_BYTES = 1 << 20
# What has no end of line is handed out in pieces of this size.
LINE_BYTES_MAX = 1 << 20


class Tail:
    """One log. The file being read stays open, so that neither a rotation nor a removal takes
    away what has not been read yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def news(self) -> Iterator[bytes]:
        """The lines that have come since, without their ends."""
        if self._file is None:
            self._file = _opened(log_segments(self._path))
        while self._file is not None:
            # Looked up first: what is rotated away after this is read to its end next time.
            newer = self._newer(self._file)
            yield from self._lines(self._file)
            following = _opened(newer)
            if following is None:
                return
            self._file.close()
            self._file = following

    def rest(self) -> Iterator[bytes]:
        """A last line without an end; then the log is closed."""
        if self._rest:
            yield self._rest
        self._rest = b""
        if self._file is not None:
            self._file.close()

    def _newer(self, file: BinaryIO) -> list[Path]:
        """The files that were begun after this one, the oldest first."""
        number = os.fstat(file.fileno()).st_ino
        segments = log_segments(self._path)
        for at, segment in enumerate(segments):
            try:
                if segment.stat().st_ino == number:
                    return segments[at + 1 :]
            except FileNotFoundError:
                continue
        return segments

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        while chunk := file.read(CHUNK_BYTES):
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            yield from whole
            if len(self._rest) > LINE_BYTES_MAX:
                yield self._rest
                self._rest = b""


def _opened(paths: list[Path]) -> BinaryIO | None:
    """The first of these that is there."""
    for path in paths:
        try:
            return path.open("rb")
        except FileNotFoundError:
            continue
    return None
