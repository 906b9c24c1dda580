"""Frames and the handshake of a TCP line between two members.

Both ends prove that they know the job's secret before anything else is read. A frame is its length
and its bytes; nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct

from swell.train.errors import GroupBrokenError
from swell.train.state.tree import Bytes

LENGTH = struct.Struct("<Q")
CHALLENGE_BYTES = 32
HELLO_BYTES_MAX = 4096
LABEL_CLIENT, LABEL_SERVER = b"swell meet client", b"swell meet server"


def send_frame(line: socket.socket, data: bytes | Bytes) -> None:
    view = memoryview(data) if isinstance(data, bytes) else data.data.cast("B")
    line.sendall(LENGTH.pack(view.nbytes))
    line.sendall(view)


def receive_into(line: socket.socket, buffer: memoryview) -> None:
    at = 0
    while at < buffer.nbytes:
        n = line.recv_into(buffer[at:])
        if not n:
            raise GroupBrokenError("a member closed its line")
        at += n


def receive_frame_into(line: socket.socket, buffer: Bytes) -> None:
    """One frame, into a buffer of exactly its length."""
    length = receive_length(line)
    if length != buffer.nbytes:
        raise GroupBrokenError(f"a member sent {length} bytes where {buffer.nbytes} were due")
    receive_into(line, buffer.data.cast("B"))


def receive_frame(line: socket.socket, limit: int) -> bytes:
    length = receive_length(line)
    if length > limit:
        raise GroupBrokenError(f"a frame of {length} bytes, where at most {limit} are taken")
    data = bytearray(length)
    receive_into(line, memoryview(data))
    return bytes(data)


def receive_length(line: socket.socket) -> int:
    raw = bytearray(LENGTH.size)
    receive_into(line, memoryview(raw))
    return int(LENGTH.unpack(raw)[0])


def greet(line: socket.socket, secret: bytes, hello: bytes) -> None:
    """The client's side: its hello, proofs of both sides."""
    challenge = receive_frame(line, CHALLENGE_BYTES)
    mine = secrets.token_bytes(CHALLENGE_BYTES)
    send_frame(line, hello)
    send_frame(line, mine)
    send_frame(line, _proof(secret, LABEL_CLIENT, challenge, hello))
    proof = receive_frame(line, CHALLENGE_BYTES)
    if not hmac.compare_digest(proof, _proof(secret, LABEL_SERVER, mine, hello)):
        raise GroupBrokenError("the meeting point does not know the job's secret")


def welcome(line: socket.socket, secret: bytes) -> bytes | None:
    """The server's side: the client's hello, or None for one that does not know the secret."""
    challenge = secrets.token_bytes(CHALLENGE_BYTES)
    send_frame(line, challenge)
    hello = receive_frame(line, HELLO_BYTES_MAX)
    theirs = receive_frame(line, CHALLENGE_BYTES)
    proof = receive_frame(line, CHALLENGE_BYTES)
    if not hmac.compare_digest(proof, _proof(secret, LABEL_CLIENT, challenge, hello)):
        return None
    send_frame(line, _proof(secret, LABEL_SERVER, theirs, hello))
    return hello


def _proof(secret: bytes, label: bytes, challenge: bytes, hello: bytes) -> bytes:
    return hmac.new(secret, label + challenge + hello, hashlib.sha256).digest()
