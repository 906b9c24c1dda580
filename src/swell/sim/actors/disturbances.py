"""What the nemesis can do to any cluster. Subjects choose among these and add their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from swell.api.kinds import PODS
from swell.api.pod import Pod
from swell.runtime.cluster import Deletion
from swell.sim.actors.nemesis import Disturbance
from swell.sim.plan import Fault, FaultKind

if TYPE_CHECKING:
    from swell.sim.world import World

MONKEY = "monkey"

# Chance per tick of the nemesis at the height of a season.
RATES_MAX: Mapping[str, float] = {
    FaultKind.COMPACTED: 0.05,
    FaultKind.KILLED: 0.02,
    FaultKind.POD_DELETED: 0.10,
    FaultKind.CLOCK_JUMP: 0.02,
    FaultKind.ALL_PAUSED: 0.01,
}


def common_disturbances(world: World) -> Mapping[str, Disturbance]:
    """The disturbances of `RATES_MAX`, for one world."""
    acts = _Acts(world)
    return {
        FaultKind.COMPACTED: acts.compact,
        FaultKind.KILLED: acts.kill,
        FaultKind.POD_DELETED: acts.delete_pod,
        FaultKind.CLOCK_JUMP: acts.jump_clock,
        FaultKind.ALL_PAUSED: acts.pause_all,
    }


class _Acts:
    def __init__(self, world: World) -> None:
        self._world = world
        self._monkey = world.connect(MONKEY)

    async def compact(self, _: Fault) -> bool:
        """Forget the past: who wants to go on from it must list again."""
        storage = self._world.storage
        storage.compact(storage.version)
        return True

    async def kill(self, fault: Fault) -> bool:
        processes = self._world.processes
        return processes[int(fault.amount * len(processes))].crash(fault)

    async def delete_pod(self, fault: Fault) -> bool:
        """Delete any pod, running or not, as people and drained nodes do."""
        pods = self._world.storage.list(str(PODS)).items
        if not pods:
            return False
        key, stored = pods[int(fault.amount * len(pods))]
        await self._monkey.delete(PODS, key, Deletion(uid=stored.typed(Pod).metadata.uid))
        return True

    async def jump_clock(self, fault: Fault) -> bool:
        # Cubed: often by seconds, which times written down are compared in, up to an hour.
        self._world.clock.jump(3600 * fault.scaled(-1, 1) ** 3)
        return True

    async def pause_all(self, fault: Fault) -> bool:
        for process in self._world.processes:
            process.pause(fault.scaled(20, 120))
        return True
