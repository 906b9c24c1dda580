"""Reads HTTP/1.1 answers from the bytes that have come so far, wherever these are cut.

It knows only what an API server's client needs: lengths, chunks, informational answers, and
answers that end with the connection. Both clients read through it, so both have the same limits.
It does no I/O. Parsing functions raise ValueError for bytes that are not HTTP.

The three ways in which an exchange of request and answer fails below HTTP:

    NotSentError    no connection could be made: the server has not seen the request
    LostError       the request was sent, or may have been, and no whole answer came
    TooLargeError   the answer is larger than the client's limit
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from swell.cluster.decoding import nonsense

_HEAD_BYTES_MAX: Final = 64 << 10
_LINE_BYTES_MAX: Final = 1024
# Twice the largest answer a client accepts by default. Go's servers send chunks of some kilobytes.
_CHUNK_BYTES_MAX: Final = 1 << 30
_CRLF: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_INFORMATIONAL_MAX = 199
_NO_CONTENT: Final = frozenset({204, 304})
# int() would also take signs, underscores and "0x". A size of -1 would then count as nothing to
# come, and the rest of the answer would pass the limit unseen.
_HEX: Final = re.compile(rb"[0-9a-fA-F]+")
# A code, who warns, and the text in quotes, in which a backslash stands before quotes and itself.
_WARNING: Final = re.compile(rb'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_QUOTED: Final = re.compile(rb"\\(.)")


class NotSentError(Exception):
    """No connection could be made: the server has not seen the request."""


class LostError(Exception):
    """The request was sent, or may have been, and no whole answer came."""


class TooLargeError(Exception):
    """The answer is larger than the client's limit."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The status line and the headers of an answer."""

    status: int
    headers: dict[bytes, bytes]  # names in lower case
    is_last: bool  # the server closes the connection after this answer

    @property
    def retry_after(self) -> str:
        return self.headers.get(b"retry-after", b"").decode("latin-1")

    @property
    def warnings(self) -> list[str]:
        """Returns the sentences that the server warns with, in its order."""
        texts = _WARNING.findall(self.headers.get(b"warning", b""))
        return [_QUOTED.sub(rb"\1", text).decode("utf-8", "replace") for text in texts]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer."""

    head: AnswerHead
    body: bytes


def take_head(data: bytearray) -> AnswerHead | None:
    """Returns the head at the start of the data and removes it; None until all of it has come.

    Informational answers (1xx) before it are skipped.
    """
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
        key = name.lower()
        # Each warning has a header of its own.
        before = headers[key] + b", " if key == b"warning" and key in headers else b""
        headers[key] = before + value.strip()
    closes = headers.get(b"connection", b"").lower() == b"close"
    return AnswerHead(status, headers, closes or version == b"HTTP/1.0")


class AnswerBody:
    """Takes the body of one answer off the data as they come."""

    def __init__(self, head: AnswerHead) -> None:
        self.is_over = False
        self.is_chunked = False
        self.ends_with_connection = False
        self.n_left = 0  # bytes still to come: of the body, or of the chunk that is being read
        self._awaits_chunk_end = False  # the CRLF behind the chunk's data is still to come
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
        """Returns the part of the body that has come since the last time, removed from `data`."""
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
                self._awaits_chunk_end = self.n_left == 0
            if self._awaits_chunk_end and len(data) >= at + len(_CRLF):
                at += len(_CRLF)
                self._awaits_chunk_end = False
            if self.n_left or self._awaits_chunk_end:
                break
            end = data.find(_CRLF, at, at + _LINE_BYTES_MAX)
            if end < 0:
                if len(data) - at >= _LINE_BYTES_MAX:
                    raise ValueError("a chunk without a size")
                break
            size = _chunk_size(bytes(data[at:end]))
            if size:
                self.n_left, at = size, end + len(_CRLF)
                continue
            # The last chunk may be followed by trailer fields, up to an empty line.
            if data.find(_HEAD_END, end) < 0:
                break
            self.is_over = True
        del data[:at]
        return b"".join(parts)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if _HEX.fullmatch(digits) is None:
        raise ValueError("a chunk size that is no number")
    size = int(digits, 16)
    if size > _CHUNK_BYTES_MAX:
        raise ValueError("a chunk of an impossible size")
    return size


class AnswerReader:
    """Reads one answer from the pieces that a connection receives, within a limit of memory."""

    def __init__(self, bytes_max: int) -> None:
        self.head: AnswerHead | None = None
        self.is_over = False
        self._max = bytes_max
        self._data = bytearray()
        self._body: AnswerBody | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> None:
        """Read on. Raises LostError when the bytes are not HTTP.

        Raises TooLargeError as soon as the bytes that were read and not taken, together with
        those that are announced, are more than the limit.
        """
        self._data += piece
        try:
            if self._body is None:
                self.head = take_head(self._data)
                if self.head is None:
                    return
                self._body = AnswerBody(self.head)
            part = self._body.take(self._data)
        except ValueError as error:
            raise LostError(f"the answer is not HTTP: {error}") from error
        self._parts.append(part)
        self._size += len(part)
        if self._size + self._body.n_left > self._max:
            raise TooLargeError(f"an answer of more than {self._max} bytes")
        self.is_over = self._body.is_over

    def end(self) -> bool:
        """Whether the answer is complete now that the server has closed the connection."""
        self.is_over = self.is_over or (self._body is not None and self._body.ends_with_connection)
        return self.is_over

    @property
    def has_more(self) -> bool:
        """Whether bytes have come that do not belong to this answer."""
        return bool(self._data)

    def take(self) -> bytes:
        """Returns the part of the body that has been read since the last time."""
        parts, self._parts, self._size = self._parts, [], 0
        return b"".join(parts)

    def answer(self) -> HttpAnswer:
        """Returns the whole answer, once it is over."""
        if self.head is None or not self.is_over:
            raise RuntimeError("the answer is not complete")
        return HttpAnswer(self.head, self.take())


class LineSplitter:
    """Cuts a stream of pieces into lines.

    A line that grows over the limit is an error, so that a broken server cannot fill the memory.
    """

    def __init__(self, line_bytes_max: int) -> None:
        self._max = line_bytes_max
        self._kept: list[bytes] = []
        self._n_kept = 0

    def cut(self, piece: bytes) -> list[bytes]:
        """Returns the lines that this piece completes, without their ends."""
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
        return [whole, *complete]

    def rest(self) -> bytes:
        """Returns the last line if it has no end; empty otherwise."""
        return b"".join(self._kept)
