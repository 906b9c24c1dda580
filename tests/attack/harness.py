"""Runs one attack against a server process and measures the harm it does to another client.

A server starts once for many attacks; each is measured against the state before it. The other
client is a process of its own, because the attacker's work would hold the lock of this one.
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import resource
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract import hostile
from tests.contract.raw import Answer, Raw
from tests.contract.targets import embedded_server

WAIT_S_MAX = 0.5  # on a machine with nothing else to do
GROWTH_BYTES_MAX = 500 << 20
# An answer that a real server gives, too: what is not implemented, and a version of the future.
ADDRESS_BYTES_MAX = 4 << 30
REFUSED = (OSError, http.client.HTTPException)
ALLOWED_5XX = frozenset({501, 504})


@dataclass
class Target:
    """A server under attack, and the codes of its answers to the attacker."""

    home: Path
    process: subprocess.Popen[bytes]
    raw: Raw
    codes: Counter[int] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    highest: int = 0  # resident bytes seen during the attack

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str | None] | None = None,
    ) -> Answer | None:
        """Send a request and note the answer; None when the server closed the connection."""
        try:
            answer = self.raw.ask(method, path, body, headers)
        except (OSError, http.client.HTTPException):
            self.raw.close()
            return None
        self.codes[answer.code] += 1
        if answer.code >= 500 and answer.code not in ALLOWED_5XX:
            self.bad.append(f"{answer.code} {method} {path[:80]} -> {answer.body[:200]!r}")
        return answer

    def take_memory(self) -> None:
        """Called by an attack while it holds something: the largest value counts."""
        self.highest = max(self.highest, hostile.memory_bytes(self.pid))

    def connect(self) -> socket.socket:
        """A plain connection, on which TLS has not begun."""
        return socket.create_connection((self.raw.host, self.raw.port), 10)

    def connect_tls(self, tls: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        return (tls or self.raw.tls).wrap_socket(self.connect(), server_hostname=self.raw.host)

    def head(self, line: str, *more: str, token: bool = True) -> bytes:
        """The head of a request, without its last empty line."""
        given = [f"Authorization: Bearer {self.raw.token}"] if token else []
        return "\r\n".join([line, f"Host: {self.raw.host}", *given, *more, ""]).encode()


@dataclass(frozen=True)
class Harm:
    """What an attack did."""

    name: str
    longest_s: float
    median_s: float
    growth_bytes: int
    is_alive: bool
    failures: list[str]
    codes: dict[int, int]
    bad: list[str]

    def problems(self, wait_s_max: float = WAIT_S_MAX) -> list[str]:
        found = [f"answer {text}" for text in self.bad] + [f"failure {f}" for f in self.failures]
        if not self.is_alive:
            found.append("the server has ended")
        if self.longest_s > wait_s_max:
            found.append(f"another client waited {self.longest_s} s, not {wait_s_max} s")
        if self.growth_bytes > GROWTH_BYTES_MAX:
            found.append(f"{self.growth_bytes >> 20} MiB of memory more")
        return found

    def __str__(self) -> str:
        return (
            f"{self.name:32} longest {self.longest_s:6.3f} s  median {self.median_s * 1e3:5.1f} ms "
            f" memory {self.growth_bytes / 2**20:+7.1f} MiB  codes {self.codes}"
        )


Attack = Callable[[Target], None]


@contextlib.contextmanager
def target_server(home: Path) -> Iterator[Target]:
    """A server with a namespace, a custom kind, and an object of every kind."""
    with embedded_server(home) as process, Raw(home / "kubeconfig") as raw:
        limit_memory(process.pid)
        hostile.prepare(raw)
        yield Target(home, process, raw)


def limit_memory(pid: int) -> None:
    """An attack that works must not take the whole machine down with its server."""
    resource.prlimit(pid, resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))


def measure(target: Target, name: str, attack: Attack) -> Harm:
    """Run an attack while the bystander works."""
    target.codes, target.bad, target.highest = Counter(), [], 0
    before = hostile.memory_bytes(target.pid)
    with _bystander(target.home / "kubeconfig") as bystander:
        try:
            attack(target)
        finally:
            gc.collect()
        is_alive = target.process.poll() is None
        if is_alive:
            target.take_memory()
        told = json.loads(bystander.communicate(timeout=60)[0].splitlines()[-1])
    is_alive = target.process.poll() is None
    return Harm(
        name=name,
        longest_s=told["longest_s"],
        median_s=told["median_s"],
        growth_bytes=max(target.highest, before) - before,
        is_alive=is_alive,
        failures=told["failures"],
        codes=dict(sorted(target.codes.items())),
        bad=target.bad[:5],
    )


def at_once(target: Target, count: int, send: Callable[[Raw], object]) -> None:
    """Do the same on many connections at the same time; what the server refuses is not counted."""

    def one() -> None:
        with Raw(target.home / "kubeconfig") as raw, contextlib.suppress(*REFUSED):
            send(raw)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        target.take_memory()
        threads[0].join(0.1)
        threads = [thread for thread in threads if thread.is_alive()]
    target.take_memory()


@contextlib.contextmanager
def _bystander(kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.attack.bystander", str(kubeconfig)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the other client ended before it was ready"
        yield process
