"""Attacks on the page, which `swell up` serves in the process of the whole cluster.

Some come from whoever reaches its port, and some from a user who has logged in.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable

from swell.history.life import JobLife
from swell.history.shards import HISTORY_LABEL, ShelfIndex, ShelfName, writes_for
from swell.up.page import PagePlace, read_place
from tests.attack.harness import REFUSED, Attack, Target

HOLD_S = 2.0
N_IDLE = 3_000
N_CLIENTS = 10
N_RECORDS = 6_000
_OWN = {"X-Swell-Page": "1", "Content-Type": "application/json"}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class _Visitor:
    """A client of the page. What it is answered counts as an answer to the attacker."""

    def __init__(self, target: Target) -> None:
        place = read_place(target.home)
        assert place is not None
        self.place: PagePlace = place
        self._target = target
        self._cookie = ""

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> bytes:
        """Send a request over a connection of its own; nothing when the page closed it."""
        opened = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=30)
        try:
            given = {**_OWN, **(headers or {}), "Cookie": self._cookie}
            opened.request(method, path, body or None, given)
            answer = opened.getresponse()
            self._target.codes[answer.status] += 1
            if answer.status >= 500:
                self._target.bad.append(f"{answer.status} {method} {path[:80]}")
            self._cookie = (answer.getheader("Set-Cookie") or self._cookie).partition(";")[0]
            return answer.read()
        except REFUSED:
            return b""
        finally:
            opened.close()

    def login(self) -> _Visitor:
        self.ask("POST", "/api/login", json.dumps({"token": self.place.code}).encode())
        return self

    def connect(self, *sent: str) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.place.port), 10)
        if sent:
            lines = [*sent, f"Host: 127.0.0.1:{self.place.port}", f"Cookie: {self._cookie}", "", ""]
            opened.sendall("\r\n".join(lines).encode())
        return opened


def _over_and_over(ask: Callable[[], object]) -> None:
    """Ask from several threads, for a while."""
    until = time.monotonic() + HOLD_S

    def client() -> None:
        while time.monotonic() < until:
            ask()

    threads = [threading.Thread(target=client) for _ in range(N_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _idle(target: Target) -> None:
    visitor = _Visitor(target).login()
    with contextlib.ExitStack() as stack:
        for _ in range(N_IDLE):
            with contextlib.suppress(OSError):
                stack.enter_context(visitor.connect())
        time.sleep(HOLD_S)
        assert visitor.ask("GET", "/api/me")


def _slow_requests(target: Target) -> None:
    """Heads and bodies that come letter by letter."""
    visitor = _Visitor(target)
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(visitor.connect()) for _ in range(200)]
        for letter in "POST /api/login HTTP/1.1\r\nContent-Length: 60000\r\n"[:40]:
            for one in opened:
                with contextlib.suppress(OSError):
                    one.sendall(letter.encode())
            time.sleep(0.05)


def _wrong_logins(target: Target) -> None:
    visitor = _Visitor(target)
    _over_and_over(lambda: visitor.ask("POST", "/api/login", b'{"token": "wrong"}'))


def _odd_bodies(target: Target) -> None:
    visitor = _Visitor(target).login()
    bodies = (
        b'{"a":' + b"[" * 60_000, b"9" * 60_000, b'{"token":"\xff"}', b'{"token":"\\ud800"}',
        b'{"token":1e999}', b"[]", b"null", b"x" * 70_000, b'{"namespaces":["../.."]}',
        b'{"manifest":"' + b"[" * 40_000 + b'"}', b'{"manifest":"a: &a [1]\\nb: *a"}',
        b'{"job":"default/x","nodePool":"+99999999x9gpu"}', b'{"replicas":1e30,"manifest":"x"}',
    )  # fmt: skip
    for path in ("/api/login", "/api/what-if", "/api/queues/default/close"):
        for body in bodies:
            visitor.ask("POST", path, body)
    visitor.login().ask("POST", "/api/queues/default/open")


def _bombs(target: Target) -> None:
    """Bodies that would be a hundred megabytes if somebody inflated them."""
    visitor, bomb = _Visitor(target), gzip.compress(b"x" * 60_000_000)[:60_000]
    coded = {"Content-Encoding": "gzip"}
    _over_and_over(lambda: visitor.ask("POST", "/api/login", bomb, coded))


def _addresses(target: Target) -> None:
    visitor = _Visitor(target).login()
    for path in (
        "/?" + "x" * 8_000, "/api/history?days=" + "9" * 8_000, "/api/history?days=%D9%A3",
        "/api/jobs/aitrainingjobs/..%2F..%2Fswell/x", "/api/jobs/aitrainingjobs/a%2Fb/c%00d",
        "/api/jobs/aitrainingjobs/default/%ED%A0%80", "/api/logs/..%2f..%2fswell/backup/x",
        "/api/logs/default/..%2F..%2Fsecrets/x?previous=true", "//", "/%2e%2e/etc/passwd", "/*",
    ):  # fmt: skip
        for method in ("GET", "HEAD", "POST", "TRACE", "X" * 100):
            visitor.ask(method, path)


def _streams(target: Target) -> None:
    """More open pages than one user has, none of which is ever read."""
    visitor = _Visitor(target).login()
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(visitor.connect("GET /api/stream HTTP/1.1"))
        time.sleep(HOLD_S)


def _states(target: Target) -> None:
    visitor = _Visitor(target).login()
    _over_and_over(lambda: visitor.ask("GET", "/api/state"))


def _histories(target: Target) -> None:
    """The whole history of thousands of jobs, and one job of it, over and over."""
    _keep_records(target)
    visitor = _Visitor(target).login()
    _over_and_over(lambda: visitor.ask("GET", "/api/history"))
    _over_and_over(lambda: visitor.ask("GET", "/api/jobs/aitrainingjobs/default/old-7"))


def _keep_records(target: Target) -> None:
    now = float(int(time.time()))
    lives = [
        JobLife(
            uid=uuid.uuid4().hex,
            kind="AITrainingJob",
            namespace="default",
            name=f"old-{n}",
            created=now - 100,
            ended=now,
            phase="Succeed",
        )
        for n in range(N_RECORDS)
    ]
    # The index puts a new shard after a full one only when it is told of that.
    index = ShelfIndex()
    for at in range(0, N_RECORDS, 500):
        for write in writes_for(index, lives[at : at + 500]):
            for uid, place in write.places.items():
                index.add(uid, place)
            name = f"swell-history-attack-{at:05d}-{write.number}"
            labels = {HISTORY_LABEL: ShelfName.ENDED.value}
            meta = {"name": name, "labels": labels}
            target.ask("POST", CONFIG_MAPS, {"metadata": meta, "binaryData": write.texts})


def _logins(target: Target) -> None:
    """One user logs in more often than there may be sessions; another still gets in."""
    for _ in range(250):
        _Visitor(target).login()
    assert b"admin" in _Visitor(target).login().ask("GET", "/api/me")


ATTACKS: dict[str, Attack] = {
    "page: idle connections": _idle,
    "page: slow requests": _slow_requests,
    "page: wrong logins": _wrong_logins,
    "page: odd bodies": _odd_bodies,
    "page: compressed bodies": _bombs,
    "page: odd addresses": _addresses,
    "page: streams that are not read": _streams,
    "page: states": _states,
    "page: histories": _histories,
    "page: logins": _logins,
}
