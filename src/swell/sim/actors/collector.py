"""The cluster's garbage collector at its own, varying pace: never at once, sometimes late."""

from __future__ import annotations

from swell.cluster.embedded.controllers.garbage import GarbageCollector
from swell.runtime.clock import Clock
from swell.sim.chance import Chance

PACE_S_MAX = 10.0


async def collect_garbage(collector: GarbageCollector, clock: Clock, chance: Chance) -> None:
    """Collect from time to time until cancelled."""
    n_rounds = 0
    while True:
        n_rounds += 1
        # Squared: mostly prompt, now and then slow.
        await clock.sleep(0.1 + PACE_S_MAX * chance.uniform("garbage", n_rounds) ** 2)
        collector.drain()
