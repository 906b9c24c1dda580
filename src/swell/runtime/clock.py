"""Time as a dependency. Only this module and the simulator know where it comes from."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits. Every component that needs either is given one."""

    def now(self) -> float:
        """Returns wall time in seconds since the epoch. It may jump; use it for timestamps only."""
        ...

    def monotonic(self) -> float:
        """Returns seconds from an arbitrary start. It never goes back; use it to measure."""
        ...

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
