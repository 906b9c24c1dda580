"""A simulated process: it runs a component, crashes at any point, and starts again.

                crash, or exit on purpose            after a delay
    running --------------------------------> ended ----------------> running, with empty memory
       |  ^
       v  | after a time
      paused

A crash loses everything in memory at once. No clean-up reaches the cluster, because the client is
cut off before the tasks are cancelled. A paused process does not notice the pause, as with a long
garbage collection or a suspended machine.
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

# A task may catch a cancellation to clean up; after this many it counts as one that cannot end.
_CANCELS_MAX = 10


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that a component under test gets from outside. `name` is new with every life.

    Checks can read what the component puts into `exposed`, for example its caches.
    """

    name: str
    cluster: Cluster
    clock: Clock
    random: Random
    exposed: dict[str, object]


Main = Callable[[Ports], Coroutine[Any, Any, None]]


class ProcessFailedError(Exception):
    """A component has ended by itself, or could not be ended."""


class ProcessExitError(Exception):
    """Raised by a component that ends on purpose, to be started again."""


class _Life:
    """One life of a process, from a start to the next crash."""

    def __init__(self, process: SimulatedProcess) -> None:
        self.actor = process.name
        self._process = process
        self.is_over = asyncio.Event()

    def check_alive(self) -> None:
        if self.is_over.is_set():
            raise asyncio.CancelledError

    async def crash(self, fault: Fault) -> None:
        self._process.crash(fault)
        await asyncio.get_running_loop().create_future()  # never done: the task is cancelled

    async def pause(self, duration_s: float) -> None:
        self._process.pause(duration_s)
        await asyncio.sleep(0)


class SimulatedProcess:
    """Starts a component again after each crash."""

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
        self._crash_loop_starts = 0

    async def run(self) -> None:
        """Run the component, again after every crash, until cancelled."""
        while True:
            self._n_lives += 1
            life = self._life = _Life(self)
            if self._crash_loop_starts:
                self._crash_loop_starts -= 1
                _loop().call_later(self._lifetime_s(), self._end, life, context=Context())
            await self._live(life)
            await self._network.clock.sleep(self._restart_after_s)

    def crash(self, fault: Fault) -> bool:
        """Crash now and restart some time later. Returns False if it had crashed already."""
        if self._life is None or self._life.is_over.is_set():
            return False
        self._restart_after_s = fault.scaled(0.1, 15)
        if fault.kind == FaultKind.CRASH_LOOP:
            self._crash_loop_starts = 3  # lives of a few seconds
        self._end(self._life)
        return True

    def pause(self, duration_s: float) -> None:
        """Stop everything in the process for a time."""
        loop = _loop()
        loop.freeze(self.name)
        loop.call_later(duration_s, loop.thaw, self.name, context=Context())

    def heal(self) -> None:
        """End pauses and crash loops: the faulty phase is over."""
        _loop().thaw(self.name)
        self._crash_loop_starts = 0
        # A long restart delay would only lengthen the second phase.
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
        # An empty context: only the scope reaches the component, nothing of the simulator's own.
        context = Context()
        context.run(SCOPE.set, self.name)
        task = loop.create_task(self._main(ports), name=self.name, context=context)
        task.add_done_callback(lambda _: life.is_over.set(), context=Context())
        try:
            await life.is_over.wait()
        finally:
            # In this order: cut off the client, then let frozen tasks run so that they can end.
            life.is_over.set()
            was_alive = not task.done()
            loop.thaw(self.name)
            await self._reap(task)
        if not was_alive and not isinstance(task.exception(), ProcessExitError):
            task.result()
            raise ProcessFailedError(f"{self.name} ended by itself")

    async def _reap(self, task: asyncio.Task[None]) -> None:
        """Cancel a task until it ends, also while it cleans up."""
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
    """A meter that raises when a controller has contained a bug, so that the run fails."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        del seconds
        if result == "bug":
            raise AssertionError(f"bug in a pass of {controller}")

    def queued(self, controller: str, n_keys: int) -> None:
        pass
