"""Whatever a stranger sends is taken as bytes: nothing is decoded before the secret is proved."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swell.api import injection
from swell.train.bus.messages import Frame, Ping, decode_frame, encode_frame
from swell.train.bus.shell import connection
from swell.train.bus.shell.connection import ConnectionLostError, ConnectionState, LineSocket
from swell.train.bus.shell.handshake import MAGIC, NONCE_BYTES, PROOF_BYTES, Handshake
from swell.train.bus.shell.reporting import answer_request, report_token

SECRET = b"open sesame"
NONCE, OTHER = b"n" * NONCE_BYTES, b"o" * NONCE_BYTES
# What a stranger may know: the form of the handshake, of a request, and of a frame.
_WORDS = st.sampled_from(
    [
        *(MAGIC, MAGIC + OTHER, MAGIC + OTHER + b"\0" * PROOF_BYTES, b"\0" * PROOF_BYTES),
        *(b"GET ", b"GET /report HTTP/1.1\r\n\r\n", b"Authorization: Bearer x\r\n", b"\r\n\r\n"),
        *(len(encode_frame(Frame(1, Ping()))).to_bytes(4) + encode_frame(Frame(1, Ping())),),
        *(b"\xff" * 4, b"x" * 9000),
    ]
)
_PARTS = st.lists(_WORDS | st.binary(max_size=200), max_size=12)
_FUZZED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextlib.contextmanager
def a_line(*, calls: bool = False) -> Iterator[tuple[LineSocket, socket.socket]]:
    """A line of a member, and its other end."""
    ours, theirs = socket.socketpair()
    with contextlib.closing(ours), contextlib.closing(theirs):
        yield LineSocket(ours, 1, Handshake(SECRET, NONCE, calls=calls), 0.0), theirs


def take_in(line: LineSocket) -> list[Frame]:
    """What the bus thread does with a line that can be read."""
    found = []
    line.read()
    line.advance()
    while (frame := line.next_frame()) is not None:
        found.append(frame)
    return found


@_FUZZED
@given(_PARTS)
def test_strangers_open_no_line_and_reach_no_decoder(
    monkeypatch: pytest.MonkeyPatch, parts: list[bytes]
) -> None:
    """A line without the proof is never open, and keeps a few kilobytes at most."""
    monkeypatch.setattr(connection, "decode_frame", None)
    with a_line() as (line, theirs), contextlib.suppress(ConnectionLostError, BrokenPipeError):
        for part in parts:
            theirs.send(part)
            assert take_in(line) == []
            assert line.state in (ConnectionState.UNKNOWN, ConnectionState.HTTP)
            assert len(line.inbox) < 1 << 17


@_FUZZED
@given(_PARTS)
def test_members_that_send_nonsense_lose_their_line_and_nothing_else(parts: list[bytes]) -> None:
    """After the proof, too, there are messages and the end of the line, and no other error."""
    with a_line() as (line, theirs), contextlib.suppress(ConnectionLostError, BrokenPipeError):
        caller = Handshake(SECRET, OTHER, calls=True)
        theirs.send(caller.opening)
        take_in(line)
        theirs.send(caller.take(bytearray(theirs.recv(4096))) or b"")
        take_in(line)
        assert line.state is ConnectionState.OPEN
        for part in parts:
            theirs.send(part)
            assert all(isinstance(one, Frame) for one in take_in(line))


@_FUZZED
@given(_PARTS)
def test_requests_without_the_token_get_no_report(parts: list[bytes]) -> None:
    """Any request has an answer or none yet; the report and the leader's name are not in it."""
    answer = answer_request(b"".join(parts), SECRET, b"the report", 7)

    assert answer is None or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 "))
    request = f"GET {injection.REPORT_PATH} HTTP/1.1\r\nAuthorization: Bearer "
    right = request + report_token(SECRET) + "\r\n\r\n"
    assert (answer_request(right.encode(), SECRET, b"the report", 7) or b"").endswith(b"report")


def test_a_proof_is_worth_nothing_elsewhere() -> None:
    """Neither sent back, nor for another line, nor by one that answers its own call."""
    caller, answerer = (Handshake(SECRET, n, calls=c) for n, c in ((OTHER, True), (NONCE, False)))
    reply = answerer.take(bytearray(caller.opening)) or b""
    proof = caller.take(bytearray(reply)) or b""

    again = Handshake(SECRET, b"another nonce".ljust(NONCE_BYTES), calls=False)
    again.take(bytearray(caller.opening))
    assert again.take(bytearray(proof)) is None
    mirror = Handshake(SECRET, NONCE, calls=False)
    mirror.take(bytearray(MAGIC + NONCE))
    assert mirror.take(bytearray(reply[-PROOF_BYTES:])) is None
    assert answerer.take(bytearray(proof)) == b""
    assert answerer.is_done


def test_a_message_nested_without_end_is_none() -> None:
    """The decoder gives up, and with it the line, not the thread."""
    inner = msgspec.msgpack.encode({"type": "Ping"})
    deep = b"\x93\x01" + inner + b"\x91" * 200_000 + b"\x01"

    with pytest.raises(ValueError, match="nested deeper"):
        decode_frame(deep)
