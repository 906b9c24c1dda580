"""The frames of SPDY/3.1, as kubectl sends them inside a WebSocket to forward ports.

Only what streams need: `SpdyDecoder` makes frames of bytes that come in any pieces, `SpdyEncoder`
makes bytes of answers. Blocks of headers are compressed, each with the memory of those before it,
beginning with a dictionary that the protocol fixes. kubectl's library knows no windows, so there
is no flow control here either.

    control frame   1 bit 1, 15 bits version, 16 bits type, 8 bits flags, 24 bits length
    data frame      1 bit 0, 31 bits stream, 8 bits flags, 24 bits length
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_VERSION = 3
_SYN_REPLY, _RST_STREAM, _PING = 2, 3, 6
_REFUSED_STREAM = 3  # the reason of a reset
_FIN = 0x01
_CONTROL = 1 << 31
_STREAM_MASK = _CONTROL - 1
_HEAD_BYTES = 8
# kubectl sends pieces of 32 KiB; a frame cannot be longer than its 24 bits say anyway.
_FRAME_BYTES_MAX = 1 << 20
# A block names a stream's type, port and request; one that grows larger is an attack.
_HEADERS_BYTES_MAX = 16 << 10
# kubectl sends three headers a stream. A block of empty names would hold thousands of them.
_HEADERS_MAX = 64
_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language"
    " accept-ranges age allow authorization cache-control connection content-base content-encoding"
    " content-language content-length content-location content-md5 content-range content-type date"
    " etag expect expires from host if-match if-modified-since if-none-match if-range"
    " if-unmodified-since last-modified location max-forwards pragma proxy-authenticate"
    " proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url"
    " public set-cookie keep-alive origin"
)
_PHRASES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00"
    " Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
# The dictionary of the protocol: names with their lengths before them, then phrases.
DICTIONARY = (
    b"".join(
        struct.pack(">I", len(name)) + name.replace("_", " ").encode() for name in _NAMES.split()
    )
    + _PHRASES.encode()
)


class SpdyError(ValueError):
    """Bytes that are no SPDY/3.1, or more of it than is taken."""


@dataclass(frozen=True, slots=True)
class OpenedStream:
    """The client opens a stream; with `is_over` it will send nothing on it."""

    stream: int
    headers: Mapping[str, str]
    is_over: bool


@dataclass(frozen=True, slots=True)
class StreamData:
    """Bytes of a stream; with `is_over` they are the last."""

    stream: int
    data: bytes
    is_over: bool


@dataclass(frozen=True, slots=True)
class ResetStream:
    """The client gives a stream up."""

    stream: int


@dataclass(frozen=True, slots=True)
class PingFrame:
    """A sign of life, which is to be sent back."""

    id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The client opens no further streams."""


SpdyFrame = OpenedStream | StreamData | ResetStream | PingFrame | GoAway


@dataclass(slots=True)
class SpdyDecoder:
    """Makes frames of bytes. SpdyError is final: what follows cannot be read."""

    _held: bytearray = field(default_factory=bytearray)
    _headers: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))

    def feed(self, data: bytes) -> Iterator[SpdyFrame]:
        """Yields the frames that are whole by now, without those that have no effect here."""
        self._held += data
        while len(self._held) >= _HEAD_BYTES:
            first, second = struct.unpack_from(">II", self._held)
            length, flags = second & 0xFFFFFF, second >> 24
            if length > _FRAME_BYTES_MAX:
                raise SpdyError(f"a frame of {length} bytes")
            if len(self._held) < _HEAD_BYTES + length:
                return
            body = bytes(self._held[_HEAD_BYTES : _HEAD_BYTES + length])
            del self._held[: _HEAD_BYTES + length]
            if not first & _CONTROL:
                yield StreamData(first, body, bool(flags & _FIN))
                continue
            if (first & _STREAM_MASK) >> 16 != _VERSION:
                raise SpdyError("a frame of another version")
            found = self._control(first & 0xFFFF, flags, body)
            if found is not None:
                yield found

    def _control(self, kind: int, flags: int, body: bytes) -> SpdyFrame | None:
        try:
            (number,) = struct.unpack_from(">I", body)
        except struct.error as error:
            raise SpdyError("a frame that is too short") from error
        stream = number & _STREAM_MASK
        match kind:
            case 1:  # opens a stream: its number, another one's, a priority and a slot, headers
                return OpenedStream(stream, self._block(body[10:]), bool(flags & _FIN))
            case 3:  # _RST_STREAM
                return ResetStream(stream)
            case 6:  # _PING
                return PingFrame(number)
            case 7:
                return GoAway()
            case 8:  # further headers, of which only the effect on the memory counts
                self._block(body[4:])
        return None

    def _block(self, data: bytes) -> dict[str, str]:
        try:
            plain = self._headers.decompress(data, _HEADERS_BYTES_MAX)
            if self._headers.unconsumed_tail:
                raise SpdyError("headers that are too long")
            return dict(_pairs(plain))
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise SpdyError(f"headers that cannot be read: {error}") from error


def _pairs(plain: bytes) -> Iterator[tuple[str, str]]:
    (n_pairs,) = struct.unpack_from(">I", plain)
    if n_pairs > _HEADERS_MAX:
        raise SpdyError(f"{n_pairs} headers")
    at = 4
    for _ in range(n_pairs):
        texts = []
        for _ in range(2):
            (length,) = struct.unpack_from(">I", plain, at)
            texts.append(plain[at + 4 : at + 4 + length].decode())
            at += 4 + length
        yield texts[0].lower(), texts[1]


@dataclass(slots=True)
class SpdyEncoder:
    """Makes bytes of answers."""

    _headers: zlib._Compress = field(default_factory=lambda: zlib.compressobj(zdict=DICTIONARY))

    def accepted(self, stream: int) -> bytes:
        """The answer that a stream is open. It has no headers."""
        block = self._headers.compress(struct.pack(">I", 0))
        block += self._headers.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + block)

    def refused(self, stream: int) -> bytes:
        """The answer that a stream is not opened, because it asks for what there is not."""
        return _control_frame(_RST_STREAM, struct.pack(">II", stream, _REFUSED_STREAM))

    def data(self, stream: int, data: bytes, *, is_over: bool = False) -> bytes:
        """Bytes of a stream, or its end, or both."""
        flags = _FIN if is_over else 0
        return struct.pack(">II", stream, flags << 24 | len(data)) + data

    def ping(self, id_: int) -> bytes:
        return _control_frame(_PING, struct.pack(">I", id_))


def _control_frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">II", _CONTROL | _VERSION << 16 | kind, len(body)) + body
