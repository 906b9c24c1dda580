"""The nemesis: it disturbs the cluster itself. At every tick the injector may decide a disturbance.

Disturbances are faults like any other: they are drawn by seed, written into plans and shrunk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from swell.api.kinds import PODS
from swell.api.pod import Pod
from swell.runtime.clock import Clock
from swell.runtime.cluster import Deletion
from swell.sim.faults.plan import Fault, FaultInjector, FaultKind

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

TICK_S = 2.0

# Carries out a disturbance; returns False if there was nothing to disturb.
Disturbance = Callable[[Fault], Awaitable[bool]]


class Nemesis:
    """Runs disturbances. Each kind has its own site, so that a new kind changes no other draws."""

    def __init__(
        self, injector: FaultInjector, clock: Clock, disturbances: Mapping[str, Disturbance]
    ) -> None:
        self._injector = injector
        self._clock = clock
        self._disturbances = disturbances

    async def run(self) -> None:
        while self._injector.on:
            await self._clock.sleep(TICK_S)
            for kind, disturb in self._disturbances.items():
                fault = self._injector.consult(f"nemesis {kind}", (kind,))
                if fault is not None and await disturb(fault):
                    self._injector.hit(fault)


MONKEY = "monkey"

# The highest probability per tick.
RATES_MAX: Mapping[str, float] = {
    FaultKind.COMPACTED: 0.05,
    FaultKind.KILLED: 0.02,
    FaultKind.POD_DELETED: 0.10,
    FaultKind.CLOCK_JUMP: 0.02,
    FaultKind.ALL_PAUSED: 0.01,
}


def common_disturbances(world: SimulatedWorld) -> Mapping[str, Disturbance]:
    """Returns the disturbances of `RATES_MAX` for one world. Subjects add their own."""
    acts = _CommonDisturbances(world)
    return {
        FaultKind.COMPACTED: acts.compact,
        FaultKind.KILLED: acts.kill,
        FaultKind.POD_DELETED: acts.delete_pod,
        FaultKind.CLOCK_JUMP: acts.jump_clock,
        FaultKind.ALL_PAUSED: acts.pause_all,
    }


class _CommonDisturbances:
    """Disturbances that any cluster can have."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._monkey = world.connect(MONKEY)

    async def compact(self, _: Fault) -> bool:
        """Compact the log: watches from an older version must list again."""
        storage = self._world.storage
        storage.compact(storage.version)
        return True

    async def kill(self, fault: Fault) -> bool:
        processes = self._world.processes
        return processes[int(fault.amount * len(processes))].crash(fault)

    async def delete_pod(self, fault: Fault) -> bool:
        """Delete any pod, running or not, as users and drained nodes do."""
        pods = self._world.storage.list(str(PODS)).items
        if not pods:
            return False
        key, stored = pods[int(fault.amount * len(pods))]
        await self._monkey.delete(PODS, key, Deletion(uid=stored.typed(Pod).metadata.uid))
        return True

    async def jump_clock(self, fault: Fault) -> bool:
        # Cubed: mostly seconds, the precision of written times, and up to an hour.
        self._world.clock.jump(3600 * fault.scaled(-1, 1) ** 3)
        return True

    async def pause_all(self, fault: Fault) -> bool:
        for process in self._world.processes:
            process.pause(fault.scaled(20, 120))
        return True
