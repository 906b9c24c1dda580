"""Attacks on the streams of pods: commands, terminals and forwarded ports, over WebSockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from itertools import repeat

from swell.cluster.embedded.http.spdy import DICTIONARY
from swell.cluster.embedded.http.streams import V4, V5
from swell.cluster.embedded.http.tunnels import TUNNEL
from tests.attack.harness import Attack, Target

# The pod whose streams are attacked; the cluster of the attacks runs it.
POD = "/api/v1/namespaces/default/pods/streamed"
_EXEC = f"{POD}/exec"
_PORTS = f"{POD}/portforward"
_BINARY, _PING = 2, 9
_KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="


def _frame(data: bytes, kind: int = _BINARY) -> bytes:
    """A message of a client; its mask of zeros leaves the bytes as they are."""
    head = bytes([0x80 | kind])
    if len(data) < 126:
        head += bytes([0x80 | len(data)])
    elif len(data) < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", len(data))
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", len(data))
    return head + bytes(4) + data


@contextlib.contextmanager
def _upgraded(target: Target, path: str, protocol: str) -> Iterator[socket.socket]:
    with target.connect_tls() as opened:
        opened.sendall(
            target.head(
                f"GET {path} HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket",
                "Sec-WebSocket-Version: 13", _KEY, f"Sec-WebSocket-Protocol: {protocol}", "",
            )
        )  # fmt: skip
        opened.settimeout(5)
        answer = opened.recv(1 << 16)
        assert b" 101 " in answer.split(b"\r\n")[0], answer
        yield opened


def _ask(target: Target, path: str) -> None:
    """Ask for a stream by a query, and leave when it is open."""
    headers: dict[str, str | None] = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": _KEY.split()[1], "Sec-WebSocket-Protocol": V4,
    }  # fmt: skip
    target.ask("GET", path, headers=headers)
    target.raw.close()


def _port_numbers(target: Target) -> None:
    for text in ("9" * 5_000, ",".join(["80"] * 300), "+80", "%D9%A1", "0x50", ",", "80,"):
        _ask(target, f"{_PORTS}?ports={text}")
    _ask(target, f"{_PORTS}?ports=1" + "&ports=80" * 700)


def _commands(target: Target) -> None:
    for query in (
        "command=x" + "&command=y" * 2_000, "command=%00", "command=" + "a" * 60_000,
        "command=sh&container=" + "x" * 5_000, "command=sh&stdin=1&tty=1&stderr=1", "command=",
    ):  # fmt: skip
        _ask(target, f"{_EXEC}?stdout=1&{query}")


def _frames(target: Target) -> None:
    """Frames without end, in pieces, without mask, and thousands of each small kind."""
    size = b'\x04{"Width":1,"Height":1}'
    for sent in (
        b"\x82\xff" + struct.pack(">Q", 2**63 - 1) + b"x" * 1_000,
        b"\x02\x85\0\0\0\0hello" * 20_000, b"\x89\xfe\xff\xff", b"\x82\x05hello",
        _frame(b"", _PING) * 50_000, _frame(size) * 20_000, _frame(b"\x04" + b"[" * 100_000),
        _frame(bytes(3_000_000)) * 5,
    ):  # fmt: skip
        path = f"{_EXEC}?command=sleep&command=20&stdin=1&stdout=1&tty=1"
        with _upgraded(target, path, V5) as opened, contextlib.suppress(OSError):
            opened.settimeout(1)
            opened.sendall(sent)
            opened.recv(1_000)


def _unread_output(target: Target) -> None:
    """Commands that print without end, to clients that never read."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            path = f"{_EXEC}?command=yes&stdout=1"
            stack.enter_context(_upgraded(target, path, V5))
        for _ in range(3):
            time.sleep(1)
            target.take_memory()


def _many_sessions(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(150):
            path = f"{_EXEC}?command=cat&stdin=1&stdout=1"
            stack.enter_context(_upgraded(target, path, V5))
        target.take_memory()


def _tunnel(target: Target, *messages: bytes) -> None:
    """Send messages into a tunnel, and stay long enough for them to be read."""
    with _upgraded(target, _PORTS, TUNNEL) as opened:
        for message in messages:
            with contextlib.suppress(OSError):
                opened.sendall(_frame(message))
        time.sleep(3)
        target.take_memory()


def _small_frames(target: Target) -> None:
    """Messages of megabytes that are frames of eight and twelve bytes."""
    _tunnel(target, *repeat(struct.pack(">II", 5, 0) * 500_000, 3))
    ping = struct.pack(">III", 1 << 31 | 3 << 16 | 6, 4, 1)
    _tunnel(target, *repeat(ping * 300_000, 3))


def _header_blocks(target: Target) -> None:
    """Blocks of some bytes that grow to thousands of headers, each with the memory of the last."""
    packer = zlib.compressobj(9, zdict=DICTIONARY)
    for n_headers in (2_000, 60):
        plain = struct.pack(">I", n_headers) + bytes(8 * n_headers)
        sent = bytearray()
        for _ in range(20_000):
            block = packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)
            sent += struct.pack(">III", 1 << 31 | 3 << 16 | 8, 4 + len(block), 1) + block
        _tunnel(target, bytes(sent[: 3 << 20]))


ATTACKS: dict[str, Attack] = {
    "numbers of ports": _port_numbers,
    "commands of a query": _commands,
    "frames of a WebSocket": _frames,
    "output that is never read": _unread_output,
    "150 commands at once": _many_sessions,
    "small frames in a tunnel": _small_frames,
    "blocks of headers in a tunnel": _header_blocks,
}
