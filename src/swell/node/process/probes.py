"""Runs the startup, readiness and liveness probes of containers.

`ContainerHealth` and the functions on it are the pure part: what a series of answers means.
`Prober` sends the probes. An exec probe is a process of its own in the container's environment.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from swell.node.pods import BoundContainer, ExecAction, HttpGetAction, Probe, TcpSocketAction
from swell.runtime.clock import Clock

ANSWER_BYTES_MAX = 10 << 10

Execute = Callable[[tuple[str, ...], float], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ProbeTally:
    """The latest answers in a row: either successes or failures."""

    n_good: int = 0
    n_bad: int = 0

    def with_answer(self, good: bool) -> ProbeTally:
        return ProbeTally(self.n_good + 1, 0) if good else ProbeTally(0, self.n_bad + 1)


@dataclass(frozen=True, slots=True)
class ContainerHealth:
    """The state of a running container, by its probes. `unhealthy` says why it must restart.

    starting --startup probe succeeds--> started, unready <--readiness probe--> ready
        |                                      |                                  |
        +--startup probe fails-----------------+--liveness probe fails------------+--> unhealthy
    """

    is_started: bool
    is_ready: bool
    unhealthy: str = ""
    unhealthy_grace_s: float | None = None


def first_health(container: BoundContainer) -> ContainerHealth:
    """Returns the health before any answer: what has no probe counts as passed."""
    is_started = container.startup_probe is None
    return ContainerHealth(is_started, is_started and container.readiness_probe is None)


def after_answer(
    health: ContainerHealth, kind: str, probe: Probe, tally: ProbeTally
) -> ContainerHealth:
    """Returns the health after an answer to a probe of this kind."""
    has_passed = tally.n_good >= probe.success_threshold
    has_failed = tally.n_bad >= probe.failure_threshold
    if kind == "readiness":
        if has_passed:
            return replace(health, is_ready=True)
        return replace(health, is_ready=False) if has_failed else health
    if has_failed:
        grace_s = probe.termination_grace_period_seconds
        own_s = float(grace_s) if grace_s is not None else None
        return replace(health, unhealthy=f"{kind} probe failed", unhealthy_grace_s=own_s)
    if kind == "startup" and has_passed:
        return replace(health, is_started=True)
    return health


class Prober:
    """All probes of one run of a container. `on_change` is called when its health changes."""

    def __init__(
        self,
        container: BoundContainer,
        address: str,
        execute: Execute,
        on_change: Callable[[], None],
        *,
        clock: Clock,
    ) -> None:
        self.health = first_health(container)
        self._container = container
        self._address = address
        self._execute = execute
        self._on_change = on_change
        self._clock = clock
        self._started = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        if self.health.is_started:
            self._started.set()
        kinds = {
            "startup": self._container.startup_probe,
            "readiness": self._container.readiness_probe,
            "liveness": self._container.liveness_probe,
        }
        for kind, probe in kinds.items():
            if probe is not None:
                self._tasks.append(asyncio.create_task(self._probe_periodically(kind, probe)))

    def cancel(self) -> None:
        """Stop probing without waiting: the container has ended."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _probe_periodically(self, kind: str, probe: Probe) -> None:
        if kind != "startup":
            await self._started.wait()
        await self._clock.sleep(probe.initial_delay_seconds)
        tally = ProbeTally()
        while True:
            good = await self.probe(probe)
            tally = tally.with_answer(good)
            health = after_answer(self.health, kind, probe, tally)
            if health != self.health:
                self._update(health)
            if health.unhealthy or (kind == "startup" and health.is_started):
                return
            await self._clock.sleep(probe.period_seconds)

    def _update(self, health: ContainerHealth) -> None:
        if health.is_started and not self.health.is_started:
            self._started.set()
            if self._container.readiness_probe is None:
                health = replace(health, is_ready=True)
        self.health = health
        self._on_change()

    async def probe(self, probe: Probe) -> bool:
        """Returns the answer of one probe. A kind that is not known here always succeeds."""
        try:
            async with asyncio.timeout(probe.timeout_seconds):
                if probe.exec_ is not None:
                    return await self._exec(probe.exec_, probe.timeout_seconds)
                if probe.http_get is not None:
                    return await self.get(probe.http_get)
                if probe.tcp_socket is not None:
                    return await self._connects(probe.tcp_socket)
        except (OSError, TimeoutError, ValueError):
            # No connection, no answer in time, no HTTP, or a name that is no port.
            return False
        return True

    async def _exec(self, action: ExecAction, within_s: float) -> bool:
        return await self._execute(action.command, within_s)

    async def _connects(self, action: TcpSocketAction) -> bool:
        host, port = action.host or self._address, self._port(action.port)
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True

    async def get(self, action: HttpGetAction) -> bool:
        """Whether a GET is answered with a success or a redirect, as kubelets count it."""
        tls: ssl.SSLContext | None = None
        if action.scheme.upper() == "HTTPS":
            # As with a kubelet, the certificate of a probed server is not checked.
            tls = ssl.create_default_context()
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        host, port = action.host or self._address, self._port(action.port)
        headers = {"Host": f"{host}:{port}", "User-Agent": "swell-probe", "Connection": "close"}
        headers |= {header.name: header.value for header in action.http_headers}
        lines = [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([f"GET {action.path or '/'} HTTP/1.1", *lines, "", ""])
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        try:
            writer.write(request.encode())
            await writer.drain()
            status = await reader.readline()
        finally:
            writer.close()
        return 200 <= _status_code(status[:ANSWER_BYTES_MAX]) < 400

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        named = {p.name: p.container_port for p in self._container.ports}
        return named[port] if port in named else int(port)


def _status_code(line: bytes) -> int:
    """Returns the code of a status line; ValueError for anything else, also for nothing."""
    _, _, rest = line.partition(b" ")
    code = rest[:3]
    if not line.startswith(b"HTTP/") or not code.isdigit():
        raise ValueError(f"no status line: {line[:80]!r}")
    return int(code)
