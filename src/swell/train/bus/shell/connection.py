"""One socket that never blocks. Its other end is a peer, or somebody who asks for the report."""

from __future__ import annotations

import enum
import errno
import socket

from swell.train.bus.events import LineId
from swell.train.bus.messages import FRAME_BYTES_MAX, Frame, decode_frame, encode_frame
from swell.train.bus.shell.handshake import Handshake

_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16
# A peer that does not read for so long that this piles up is as good as gone.
_OUTBOX_BYTES_MAX = 32 << 20
# Before its end has proved anything, a line may send no more than this.
_UNKNOWN_BYTES_MAX = 8192
_HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ")


class ConnectionState(enum.Enum):
    """CONNECTING -> UNKNOWN -> OPEN or HTTP -> CLOSING"""

    CONNECTING = "connecting"
    UNKNOWN = "unknown"  # it has not proved that it knows the secret
    OPEN = "open"
    HTTP = "http"
    CLOSING = "closing"  # all that was sent goes out, then it is closed


class ConnectionLostError(Exception):
    """The other end has closed, or has sent something that no peer sends."""


class LineSocket:
    """A socket with its buffers."""

    def __init__(self, sock: socket.socket, line: LineId, handshake: Handshake, now: float) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.line = line
        self.since = now
        self.state = ConnectionState.UNKNOWN
        self.inbox = bytearray()
        self.outbox = bytearray()
        self._handshake = handshake
        self._is_shut = False

    @property
    def wants_to_write(self) -> bool:
        return bool(self.outbox) or self.state is ConnectionState.CONNECTING

    def connect(self, address: tuple[str, int]) -> None:
        """Begin to connect. Raises OSError when it is known at once that this fails."""
        self.state = ConnectionState.CONNECTING
        error = self.sock.connect_ex(address)
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, "cannot connect")

    def finish_connecting(self) -> None:
        """Take the result of the connection. Raises OSError when it has failed."""
        error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "cannot connect")
        self.state = ConnectionState.UNKNOWN
        self.write(self._handshake.opening)

    def write(self, data: bytes) -> None:
        self.outbox += data
        if len(self.outbox) > _OUTBOX_BYTES_MAX:
            raise ConnectionLostError("the other end does not read")
        self.flush()

    def send(self, frame: Frame) -> None:
        raw = encode_frame(frame)
        self.write(len(raw).to_bytes(_LENGTH_BYTES) + raw)

    def flush(self) -> None:
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox)]
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionLostError(str(error)) from error
        if self.state is ConnectionState.CLOSING and not self._is_shut:
            self._is_shut = True
            # Closing at once could take the last message back: wait for the other end.
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError as error:
                raise ConnectionLostError(str(error)) from error

    def close_softly(self) -> None:
        self.state = ConnectionState.CLOSING
        self.flush()

    def read(self) -> bool:
        """Take in all that has come. False when the other end has closed, after its last word."""
        try:
            while part := self.sock.recv(_READ_BYTES):
                if self.state is not ConnectionState.CLOSING:
                    self.inbox += part
                    self._check_inbox()
                if len(part) < _READ_BYTES:
                    return True
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _check_inbox(self) -> None:
        is_known = self.state is ConnectionState.OPEN
        most = FRAME_BYTES_MAX + _READ_BYTES if is_known else _UNKNOWN_BYTES_MAX + _READ_BYTES
        if len(self.inbox) > most:
            raise ConnectionLostError(f"more than {most} bytes without an end")

    def advance(self) -> bool:
        """Go on with the handshake. Returns whether the line has become open just now."""
        if self.state is not ConnectionState.UNKNOWN:
            return False
        if bytes(self.inbox[:4]) in _HTTP:
            self.state = ConnectionState.HTTP
            return False
        while self.inbox and not self._handshake.is_done:
            before = len(self.inbox)
            answer = self._handshake.take(self.inbox)
            if answer is None:
                raise ConnectionLostError("the other end does not know the job's secret")
            self.write(answer)
            if len(self.inbox) == before:
                return False
        if self._handshake.is_done:
            self.state = ConnectionState.OPEN
            return True
        if len(self.inbox) > _UNKNOWN_BYTES_MAX:
            raise ConnectionLostError("no end of a handshake")
        return False

    def next_frame(self) -> Frame | None:
        """The next whole frame of an open line."""
        if self.state is not ConnectionState.OPEN or len(self.inbox) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(self.inbox[:_LENGTH_BYTES])
        if length > FRAME_BYTES_MAX:
            raise ConnectionLostError(f"a frame of {length} bytes; {FRAME_BYTES_MAX} are the most")
        if len(self.inbox) < _LENGTH_BYTES + length:
            return None
        raw = bytes(self.inbox[_LENGTH_BYTES : _LENGTH_BYTES + length])
        del self.inbox[: _LENGTH_BYTES + length]
        try:
            return decode_frame(raw)
        except ValueError as error:
            raise ConnectionLostError(f"a frame that is no message: {error}") from error
