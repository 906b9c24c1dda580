"""Time as a dependency. Components are given a Clock; only this file and `sim` know where it ticks.

Wall time is for timestamps people read and may jump; the monotonic time, for measuring and
waiting, never goes back.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Wall time in seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
