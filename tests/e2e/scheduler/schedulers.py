"""Two schedulers of which one leads: as tasks beside the embedded cluster, or as processes."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from swell.api.kinds import LEASES
from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import NotFoundError
from swell.runtime.guard import GuardedCluster, LeaderGuard
from swell.runtime.leader import Election, LeaseTimes
from swell.scheduler.live.controller import schedule
from swell.scheduler.live.settings import SchedulerSettings
from tests.e2e.scheduler.story import Schedulers
from tests.testbed.control_plane import ControlPlane
from tests.testbed.processes import ChildProcess, ProcessEndedError

LEASE = Key("default", "swell-scheduler")
TIMES = LeaseTimes(duration_s=6.0, renew_deadline_s=4.0, retry_s=1.0)
BIND_WINDOW_S = 30.0
POLL_S = 0.1
READY_S_MAX = 60.0
STOP_S = 10.0
FOR_EVER_S = 1e6
_MAIN = "import sys; from swell.cli.main import main; sys.exit(main())"


class Settle(Protocol):
    """Something that runs two schedulers while a context lasts."""

    def running(self) -> AbstractAsyncContextManager[Schedulers]: ...


async def holder(cluster: Cluster) -> str:
    """Who holds the lease."""
    try:
        lease = await cluster.get(LEASES, LEASE)
    except NotFoundError:
        return ""
    return lease.spec.holder_identity


async def until_led(cluster: Cluster, otherwise: str = "") -> str:
    """Wait until somebody other than that one holds the lease."""
    async with asyncio.timeout(READY_S_MAX):
        while (found := await holder(cluster)) in {"", otherwise}:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    return found


class Tasks:
    """Schedulers in this process, each with an identity of its own."""

    def __init__(self, connect: Callable[[str], Cluster], clock: Clock, config: Path) -> None:
        self._connect = connect
        self._clock = clock
        self._options = SchedulerSettings(config_path=config, bind_window_s=BIND_WINDOW_S)
        self._numbers = itertools.count()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lines: dict[str, LeaderGuard] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Schedulers]:
        self._start()
        await until_led(self._connect("user"))
        self._start()
        try:
            yield self
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def kill_leader(self) -> None:
        """Its line is cut first, so that nothing it does on its way out arrives."""
        name = await self.leader()
        self._lines[name].close()
        await self._replace(name)

    async def stop_leader(self) -> None:
        await self._replace(await self.leader())

    async def leader(self) -> str:
        return await until_led(self._connect("user"))

    async def _replace(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._start()
        await until_led(self._connect("user"), otherwise=name)

    def _start(self) -> None:
        number = next(self._numbers)
        name = f"scheduler-{number}"
        line = self._lines[name] = LeaderGuard(self._clock)
        line.open_until(self._clock.monotonic() + FOR_EVER_S)
        work = schedule(
            GuardedCluster(self._connect(name), line),
            clock=self._clock,
            random=Random(number),
            settings=self._options,
            election=Election(LEASE, name, TIMES),
        )
        self._tasks[name] = asyncio.create_task(work)


class OwnProcesses:
    """`swell scheduler` twice, and hollow nodes in one more process."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, folder: Path, config: Path) -> None:
        self._plane = plane
        self._cluster = cluster
        self._folder = folder
        self._config = config
        self._numbers = itertools.count()
        self._processes: list[ChildProcess] = []

    @asynccontextmanager
    async def hollow_nodes(self, n_nodes: int) -> AsyncIterator[None]:
        """Nodes that only pretend, all of them ready."""
        process = self._launch("nodes", "node", "--hollow", f"--nodes={n_nodes}")
        try:
            async with asyncio.timeout(READY_S_MAX):
                while f"{n_nodes} nodes ready" not in process.log_tail():
                    process.check_running()
                    await asyncio.sleep(POLL_S)
            yield
        finally:
            process.stop(grace_s=STOP_S)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Schedulers]:
        """Two of them; one that ends is replaced, as a Deployment does."""
        keeper = asyncio.create_task(self._keep())
        try:
            await until_led(self._cluster)
            yield self
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            for process in self._processes:
                process.stop(grace_s=STOP_S)

    async def kill_leader(self) -> None:
        leader = await self.leader()
        process = self._led_by(leader)
        os.kill(process.pid, signal.SIGKILL)
        await until_led(self._cluster, otherwise=leader)

    async def stop_leader(self) -> None:
        leader = await self.leader()
        os.kill(self._led_by(leader).pid, signal.SIGTERM)
        await until_led(self._cluster, otherwise=leader)

    async def leader(self) -> str:
        return await until_led(self._cluster)

    async def _keep(self) -> None:
        while True:
            self._processes = [one for one in self._processes if _runs(one)]
            while len(self._processes) < 2:
                self._start()
            await asyncio.sleep(POLL_S)

    def _led_by(self, identity: str) -> ChildProcess:
        """The process that says in its log that it leads by this name."""
        return next(one for one in self._processes if identity in one.log_file.read_text())

    def _start(self) -> None:
        name = f"scheduler-{next(self._numbers)}"
        flags = [
            f"--scheduler-conf={self._config}",
            f"--lease-duration={TIMES.duration_s}s",
            f"--renew-deadline={TIMES.renew_deadline_s}s",
            f"--retry-period={TIMES.retry_s}s",
        ]
        self._processes.append(self._launch(name, "scheduler", *flags))

    def _launch(self, name: str, *arguments: str) -> ChildProcess:
        command = [
            sys.executable,
            "-c",
            _MAIN,
            *arguments,
            f"--kubeconfig={self._plane.kubeconfig}",
        ]
        return ChildProcess(name, command, self._folder / f"{name}.log")


def _runs(process: ChildProcess) -> bool:
    try:
        process.check_running()
    except ProcessEndedError:
        return False
    return True
