"""Whoever disturbs the cluster itself: at every tick the book may name a disturbance.

Disturbances are faults like any other: drawn per seed, written into the plan, shrunk with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from swell.runtime.clock import Clock
from swell.sim.plan import Fault, FaultBook

TICK_S = 2.0

# Does the disturbance; False when there was nothing to disturb.
Disturbance = Callable[[Fault], Awaitable[bool]]


class Nemesis:
    """Each kind of disturbance has a site of its own, so that one more kind moves no other."""

    def __init__(
        self, book: FaultBook, clock: Clock, disturbances: Mapping[str, Disturbance]
    ) -> None:
        self._book = book
        self._clock = clock
        self._disturbances = disturbances

    async def run(self) -> None:
        while self._book.on:
            await self._clock.sleep(TICK_S)
            for kind, disturb in self._disturbances.items():
                fault = self._book.consult(f"nemesis {kind}", (kind,))
                if fault is not None and await disturb(fault):
                    self._book.hit(fault)
