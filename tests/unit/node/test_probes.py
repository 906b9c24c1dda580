"""A probed server may answer anything: a probe fails then, and never ends the probing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import pytest

from swell.api.codec import convert
from swell.node.pods import BoundContainer
from swell.node.process.probes import Prober
from swell.runtime.clock import SystemClock


def _serve_once(listener: socket.socket, answer: bytes) -> None:
    accepted, _ = listener.accept()
    with accepted, contextlib.suppress(OSError):
        accepted.recv(1_000)
        accepted.sendall(answer)


async def _refuse(*_: object) -> bool:
    return False


def _is_good(answer: bytes, path: str = "/") -> bool:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        get = {"port": listener.getsockname()[1], "path": path}
        body = {"name": "c", "image": "i", "readinessProbe": {"httpGet": get}}
        container = convert(body, BoundContainer)
        assert container.readiness_probe is not None
        prober = Prober(container, "127.0.0.1", _refuse, lambda: None, clock=SystemClock())
        server = threading.Thread(target=_serve_once, args=(listener, answer))
        server.start()
        is_good = asyncio.run(prober.probe(container.readiness_probe))
        server.join()
    return is_good


@pytest.mark.parametrize(
    ("answer", "is_good"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 302 Found\r\n", True),
        (b"HTTP/1.1 200", True),
        (b"HTTP/1.1 503 No\r\n\r\n", False),
        (b"", False),
        (b"\r\n", False),
        (b"nonsense\n", False),
        (b"\xff\xfe\n", False),
        (b"HTTP/1.1 " + b"9" * 5_000 + b"\n", False),
        (b"HTTP/1.1  200\n", False),
        (b"x" * (1 << 20), False),
    ],
)
def test_answers_to_a_probe(answer: bytes, is_good: bool) -> None:
    assert _is_good(answer) is is_good


def test_probe_of_a_path_that_is_no_text() -> None:
    assert _is_good(b"HTTP/1.1 200 OK\r\n\r\n", "/\udc80") is False
