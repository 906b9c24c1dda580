"""A simulated operating-system process: it runs a component, dies at any point, and starts again.

A crash takes everything the process had in memory, at once: no clean-up of its own reaches the
cluster, since its client is cut off before its tasks are ended. A pause stops it without its
noticing, as a long garbage collection or a suspended machine does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any

from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.sim.chance import Chance
from swell.sim.faults.cluster import FaultyCluster
from swell.sim.faults.network import SimulatedNetwork
from swell.sim.faults.plan import Fault, FaultKind
from swell.sim.loop import SCOPE, VirtualLoop

_CANCELS_MAX = 10


@dataclass(frozen=True, slots=True)
class Ports:
    """All that a component under test is given of the world; `name` is new with every life.

    What it puts into `exposed` the checks can look at: its caches, for example.
    """

    name: str
    cluster: Cluster
    clock: Clock
    random: Random
    exposed: dict[str, object]


Main = Callable[[Ports], Coroutine[Any, Any, None]]


class ProcessFailedError(Exception):
    """A component ended, or would not end, by itself."""


class ProcessExitError(Exception):
    """Raised by a component that gives up on purpose, in order to be started again."""


class _Life:
    """From one start to the next crash."""

    def __init__(self, process: SimulatedProcess) -> None:
        self.actor = process.name
        self._process = process
        self.is_over = asyncio.Event()

    def check_alive(self) -> None:
        if self.is_over.is_set():
            raise asyncio.CancelledError

    async def crash(self, fault: Fault) -> None:
        self._process.crash(fault)
        await asyncio.get_running_loop().create_future()

    async def pause(self, duration_s: float) -> None:
        self._process.pause(duration_s)
        await asyncio.sleep(0)


class SimulatedProcess:
    """Keeps a component running through its crashes."""

    def __init__(
        self,
        name: str,
        main: Main,
        connect: Callable[[str], Cluster],
        network: SimulatedNetwork,
        chance: Chance,
    ) -> None:
        self.name = name
        self.crashes = 0
        self.exposed: dict[str, object] = {}
        self._main = main
        self._connect = connect
        self._network = network
        self._chance = chance
        self._life: _Life | None = None
        self._n_lives = 0
        self._restart_after_s = 0.0
        self._doomed_lives = 0

    async def run(self) -> None:
        """Start, and start again after every crash, until cancelled."""
        while True:
            self._n_lives += 1
            life = self._life = _Life(self)
            if self._doomed_lives:
                self._doomed_lives -= 1
                _loop().call_later(self._lifetime_s(), self._end, life, context=Context())
            await self._live(life)
            await self._network.clock.sleep(self._restart_after_s)

    def crash(self, fault: Fault) -> bool:
        """Die now, to be started again some time later; False when it was dead already."""
        if self._life is None or self._life.is_over.is_set():
            return False
        self._restart_after_s = fault.scaled(0.1, 15)
        if fault.kind == FaultKind.CRASH_LOOP:
            self._doomed_lives = 3
        self._end(self._life)
        return True

    def pause(self, duration_s: float) -> None:
        """Stop everything in the process for a while."""
        loop = _loop()
        loop.freeze(self.name)
        loop.call_later(duration_s, loop.thaw, self.name, context=Context())

    def heal(self) -> None:
        """The faults are over: no pause or crash loop goes on."""
        _loop().thaw(self.name)
        self._doomed_lives = 0
        self._restart_after_s = min(self._restart_after_s, 1.0)

    def _end(self, life: _Life) -> None:
        if not life.is_over.is_set():
            self.crashes += 1
            life.is_over.set()

    def _lifetime_s(self) -> float:
        return self._chance.between(0, 3, "lifetime", self.name, self._n_lives)

    async def _live(self, life: _Life) -> None:
        loop = _loop()
        cluster = FaultyCluster(self._connect(self.name), self._network, life)
        random = self._chance.generator("process", self.name, self._n_lives)
        self.exposed = {}
        ports = Ports(
            name=f"{self.name}#{self._n_lives}",
            cluster=cluster,
            clock=self._network.clock,
            random=random,
            exposed=self.exposed,
        )
        context = Context()
        context.run(SCOPE.set, self.name)
        task = loop.create_task(self._main(ports), name=self.name, context=context)
        task.add_done_callback(lambda _: life.is_over.set(), context=Context())
        try:
            await life.is_over.wait()
        finally:
            life.is_over.set()
            was_alive = not task.done()
            loop.thaw(self.name)
            await self._reap(task)
        if not was_alive and not isinstance(task.exception(), ProcessExitError):
            task.result()
            raise ProcessFailedError(f"{self.name} ended by itself")

    async def _reap(self, task: asyncio.Task[None]) -> None:
        """End a task that may take more than one telling: its clean-up is cut short as well."""
        for _ in range(_CANCELS_MAX):
            if task.done():
                return
            task.cancel()
            for _ in range(100):
                if not task.done():
                    await asyncio.sleep(0)
        raise ProcessFailedError(f"{self.name} cannot be ended")


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError("simulated processes run on a VirtualLoop")
    return loop


class BugMeter:
    """Raises where a controller says that a pass of it was a bug: the process ends by itself."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        del seconds
        if result == "bug":
            raise AssertionError(f"bug in a pass of {controller}")

    def queued(self, controller: str, n_keys: int) -> None:
        pass
