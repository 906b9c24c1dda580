"""Attacks by connections: their number, their slowness, and what is no HTTP at all."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from urllib.parse import quote

from tests.attack.harness import Attack, Target
from tests.attack.payloads import CONFIG_MAPS, config_map

HOLD_S = 2.0
N_IDLE = 3_000


@contextlib.contextmanager
def _sockets(target: Target, count: int) -> Iterator[list[socket.socket]]:
    """Plain connections. The server may refuse or close some of them."""
    with contextlib.ExitStack() as stack:
        made: list[socket.socket] = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                made.append(stack.enter_context(target.connect()))
        yield made


def _idle(target: Target) -> None:
    with _sockets(target, N_IDLE):
        time.sleep(HOLD_S)


def _churn(target: Target) -> None:
    for _ in range(1_500):
        with contextlib.suppress(OSError):
            target.connect().close()


def _send(opened: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        opened.sendall(data)


def _read(opened: socket.socket, limit_s: float = 2.0) -> None:
    opened.settimeout(limit_s)
    with contextlib.suppress(OSError):
        opened.recv(4096)


def _slow_headers(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(target.connect_tls()) for _ in range(100)]
        for n in range(10):
            for one in opened:
                _send(one, b"GET / HTTP/1.1\r\n" if n == 0 else f"X-{n}: a\r\n".encode())
            time.sleep(0.1)


def _slow_bodies(target: Target) -> None:
    head = target.head(f"POST {CONFIG_MAPS} HTTP/1.1", "Content-Length: 3000000", "")
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(target.connect_tls()) for _ in range(100)]
        for one in opened:
            _send(one, head)
        for _ in range(10):
            for one in opened:
                _send(one, b"{")
            time.sleep(0.1)


def _lines(*lines: bytes, count: int = 20) -> Attack:
    """The same bytes on several connections, each read once."""

    def attack(target: Target) -> None:
        for _ in range(count):
            with contextlib.suppress(OSError), target.connect_tls() as opened:
                for line in lines:
                    _send(opened, line)
                _read(opened)

    return attack


def _header_flood(target: Target) -> None:
    for headers in (
        [f"X-{n}: {'a' * 100}" for n in range(20_000)],
        ["X: " + "a" * 2_000_000],
        ["X" * 2_000_000 + ": a"],
        ["X: a", " folded"] * 20_000,
        ["Authorization: Bearer " + "a" * 30_000],
        ["Accept: " + "application/json;q=0.1," * 1_300],
    ):
        with contextlib.suppress(OSError), target.connect_tls() as opened:
            _send(opened, target.head("GET / HTTP/1.1", *headers, ""))
            _read(opened)


def _half_closed(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            opened = stack.enter_context(target.connect())
            opened.shutdown(socket.SHUT_WR)
        for _ in range(50):
            tls = stack.enter_context(target.connect_tls())
            _send(tls, target.head("GET /api/v1/pods?watch=1 HTTP/1.1", ""))
            with contextlib.suppress(OSError):
                tls.shutdown(socket.SHUT_WR)
        time.sleep(HOLD_S / 2)


def _pipelined(target: Target) -> None:
    request = target.head("GET /api/v1/namespaces/default HTTP/1.1", "")
    with contextlib.suppress(OSError), target.connect_tls() as opened:
        for _ in range(40):
            _send(opened, request * 50)
        _read(opened)
    with contextlib.suppress(OSError), target.connect_tls() as opened:
        _send(opened, request + b"\x00garbage\r\n\r\n" * 50_000)
        _read(opened)


def _chunks(target: Target) -> None:
    head = target.head(f"POST {CONFIG_MAPS} HTTP/1.1", "Transfer-Encoding: chunked", "")
    for body in (
        b"-1\r\n", b"FFFFFFFFFFFFFFFFFFFF\r\n", b"1;" + b"x" * 200_000, b"1\r\na\r\n" * 100_000,
        b"0\r\n" + b"X: y\r\n" * 50_000, b"zz\r\n", b"\r\n" * 100_000,
    ):  # fmt: skip
        with contextlib.suppress(OSError), target.connect_tls() as opened:
            _send(opened, head + body)
            _read(opened, 1.0)


def _lengths(target: Target) -> None:
    for length in ("-1", "9" * 100, "1e9", "1, 2", "0x10", "+5"):
        head = target.head(f"POST {CONFIG_MAPS} HTTP/1.1", f"Content-Length: {length}", "")
        with contextlib.suppress(OSError), target.connect_tls() as opened:
            _send(opened, head + b"{}")
            _read(opened, 1.0)
    both = ("Content-Length: 2", "Transfer-Encoding: chunked", "")
    with contextlib.suppress(OSError), target.connect_tls() as opened:
        _send(opened, target.head(f"POST {CONFIG_MAPS} HTTP/1.1", *both) + b"0\r\n\r\n")
        _read(opened, 1.0)


def _methods(target: Target) -> None:
    for method in ("PURGE", "TRACE", "CONNECT", "X" * 30_000, "get", "GET\x00", "BREW", "PROPFIND"):
        with contextlib.suppress(OSError), target.connect_tls() as opened:
            _send(opened, target.head(f"{method} / HTTP/1.1", ""))
            _read(opened, 1.0)
    for line in ("GET / HTTP/9.9", "GET", "GET  / HTTP/1.1", "GET / HTTP/1.1 x", "PRI * HTTP/2.0"):
        with contextlib.suppress(OSError), target.connect_tls() as opened:
            _send(opened, target.head(line, ""))
            _read(opened, 1.0)


def _plain_http(target: Target) -> None:
    with _sockets(target, 200) as opened:
        for one in opened:
            _send(one, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for one in opened[:20]:
            _read(one, 0.5)


def _handshakes(target: Target) -> None:
    """Handshakes that break off at every point, and sessions that begin anew."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    with _sockets(target, 200) as opened:
        for n, one in enumerate(opened):
            _send(one, hello + bytes(n))
        time.sleep(HOLD_S / 4)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    for _ in range(100):
        with contextlib.suppress(OSError):
            target.connect_tls(tls).close()


def _silent_watches(target: Target) -> None:
    """Watches that read nothing while large objects change."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(target.raw.open_stream("/api/v1/configmaps?watch=1"))
        for n in range(60):
            data = {"k": "x" * 200_000}
            target.ask(
                "PUT", f"{CONFIG_MAPS}/watched", config_map("watched", data=data)
            ) if n else (target.ask("POST", CONFIG_MAPS, config_map("watched")))
        target.ask("DELETE", f"{CONFIG_MAPS}/watched")


def _many_watches(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            with contextlib.suppress(OSError):
                stack.enter_context(target.raw.open_stream("/api/v1/configmaps?watch=1"))
        for n in range(10):
            target.ask("POST", CONFIG_MAPS, config_map(f"seen{n}"))
        for n in range(10):
            target.ask("DELETE", f"{CONFIG_MAPS}/seen{n}")


def _unauthorized(target: Target) -> None:
    for _ in range(300):
        target.ask("GET", "/api/v1/pods", headers={"Authorization": "Bearer wrong"})
    for _ in range(5):
        target.ask("POST", CONFIG_MAPS, b"[" * 3_000_000, {"Authorization": None})


def _upgrades(target: Target) -> None:
    """Requests to change the protocol, on paths that know no other."""
    paths = ("/api/v1/pods", "/api/v1/pods?watch=1", f"{CONFIG_MAPS}/victim", "/healthz",
             "/api/v1/namespaces/default/pods/x/exec?command=sh", "/openapi/v2")  # fmt: skip
    for path in paths:
        for headers in (
            ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: " + "a" * 9_000),
            ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ"),
            ("Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4"),
            ("Expect: 100-continue", "Content-Length: 3000000"),
            ("Expect: " + "x" * 5_000,), ("Connection: " + "close, " * 2_000,), ("TE: trailers",),
        ):  # fmt: skip
            with contextlib.suppress(OSError), target.connect_tls() as opened:
                _send(opened, target.head(f"GET {path} HTTP/1.1", *headers, "") + b"\x81\xfe" * 500)
                _read(opened, 0.3)


def _slow_readers(target: Target) -> None:
    """Answers that their clients read a few bytes at a time."""
    with contextlib.ExitStack() as stack:
        paths = ("/openapi/v2", "/api/v1/events", "/apis", CONFIG_MAPS, "/metrics")
        opened = [stack.enter_context(target.raw.open_stream(paths[n % 5])) for n in range(150)]
        for _ in range(10):
            for one in opened:
                one.settimeout(0.05)
                with contextlib.suppress(OSError):
                    one.recv(16)
        target.take_memory()


def _filtered_watches(target: Target) -> None:
    """Watches with selectors of a thousand terms, in every form, while objects change."""
    terms = quote(",".join(f"k{n}!=v" for n in range(1_000)))
    table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
    with contextlib.ExitStack() as stack:
        for n in range(200):
            line = f"GET /api/v1/configmaps?watch=1&labelSelector={terms} HTTP/1.1"
            opened = stack.enter_context(target.connect_tls())
            _send(opened, target.head(line, *((table,) if n % 2 else ()), ""))
        for n in range(20):
            target.ask("POST", CONFIG_MAPS, config_map(f"f{n}", data={"k": "x" * 20_000}))
        for n in range(20):
            target.ask("DELETE", f"{CONFIG_MAPS}/f{n}")


ATTACKS: dict[str, Attack] = {
    "changes of protocol": _upgrades,
    "answers read byte by byte": _slow_readers,
    "watches with long selectors": _filtered_watches,
    "3000 idle connections": _idle,
    "connections that end at once": _churn,
    "slow headers": _slow_headers,
    "slow bodies": _slow_bodies,
    "header floods": _header_flood,
    "half-closed connections": _half_closed,
    "pipelined garbage": _pipelined,
    "garbage": _lines(b"\x00" * 100_000, b"\xff" * 100_000),
    "chunks": _chunks,
    "lengths": _lengths,
    "unknown methods": _methods,
    "plain HTTP to TLS": _plain_http,
    "broken handshakes": _handshakes,
    "watches that never read": _silent_watches,
    "1000 watches": _many_watches,
    "no token": _unauthorized,
}
