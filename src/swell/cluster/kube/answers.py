"""Reads HTTP/1.1 answers off the bytes that have come so far, however these are cut.

Only what an API server's client needs: lengths, chunks, informational answers, ends of connections.
No I/O. What is not HTTP is a ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from swell.cluster.decoding import nonsense

_HEAD_BYTES_MAX: Final = 64 << 10
_LINE_BYTES_MAX: Final = 1024
_CRLF: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_INFORMATIONAL_MAX = 199
_NO_CONTENT: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """All of an answer but its body."""

    status: int
    headers: dict[bytes, bytes]  # names in small letters
    is_last: bool  # nothing else will be answered on this connection


def take_head(data: bytearray) -> AnswerHead | None:
    """The head at the beginning of the data, taken off them; None until all of it has come."""
    while True:
        end = data.find(_HEAD_END)
        if end < 0:
            if len(data) > _HEAD_BYTES_MAX:
                raise ValueError("a head without end")
            return None
        lines = bytes(data[:end]).split(_CRLF)
        del data[: end + len(_HEAD_END)]
        version, _, rest = lines[0].partition(b" ")
        if version not in {b"HTTP/1.1", b"HTTP/1.0"}:
            raise ValueError("an unknown version")
        status = int(rest.partition(b" ")[0])
        if status > _INFORMATIONAL_MAX:
            break
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    closes = headers.get(b"connection", b"").lower() == b"close"
    return AnswerHead(status, headers, closes or version == b"HTTP/1.0")


class AnswerBody:
    """The body of one answer, taken off the data as it comes."""

    def __init__(self, head: AnswerHead) -> None:
        self.is_over = False
        self.is_chunked = False
        self.ends_with_connection = False
        self.n_left = 0  # of the body, or of the chunk that is being read
        self._chunk_ends = False  # its last two bytes are still to come
        length = head.headers.get(b"content-length")
        if head.status in _NO_CONTENT:
            self.is_over = True
        elif head.headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            self.is_chunked = True
        elif length is None:
            self.ends_with_connection = True
        elif length.isdigit():
            self.n_left = int(length)
            self.is_over = self.n_left == 0
        else:
            raise ValueError("a length that is no number")

    def take(self, data: bytearray) -> bytes:
        """What has come of the body since the last time; the data are left without it."""
        if self.is_chunked:
            return self._take_chunks(data)
        if self.ends_with_connection:
            part = bytes(data)
            data.clear()
            return part
        part = bytes(data[: self.n_left])
        del data[: self.n_left]
        self.n_left -= len(part)
        self.is_over = self.n_left == 0
        return part

    def _take_chunks(self, data: bytearray) -> bytes:
        parts: list[bytearray] = []
        at = 0
        while not self.is_over:
            if self.n_left:
                part = data[at : at + self.n_left]
                parts.append(part)
                at += len(part)
                self.n_left -= len(part)
                self._chunk_ends = self.n_left == 0
            if self._chunk_ends and len(data) >= at + len(_CRLF):
                at += len(_CRLF)
                self._chunk_ends = False
            if self.n_left or self._chunk_ends:
                break
            end = data.find(_CRLF, at, at + _LINE_BYTES_MAX)
            if end < 0:
                if len(data) - at >= _LINE_BYTES_MAX:
                    raise ValueError("a chunk without a size")
                break
            size = int(bytes(data[at:end]).partition(b";")[0], 16)
            if size:
                self.n_left, at = size, end + len(_CRLF)
                continue
            if data.find(_HEAD_END, end) < 0:  # behind it may come what is called a trailer
                break
            self.is_over = True
        del data[:at]
        return b"".join(parts)


class LineSplitter:
    """What has come of the line that is not complete yet."""

    def __init__(self, line_bytes_max: int) -> None:
        self._max = line_bytes_max
        self._kept: list[bytes] = []
        self._n_kept = 0

    def cut(self, piece: bytes) -> list[bytes]:
        """Lines completed by a piece, without their ends; empty ones are none."""
        first, *rest = piece.split(b"\n")
        self._kept.append(first)
        self._n_kept += len(first)
        if self._n_kept > self._max:
            raise nonsense(f"a line longer than {self._max} bytes")
        if not rest:
            return []
        whole = b"".join(self._kept)
        *complete, last = rest
        self._kept, self._n_kept = [last], len(last)
        return [line for line in (whole, *complete) if line]
