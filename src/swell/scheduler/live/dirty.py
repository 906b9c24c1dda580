"""Whether there is reason for a cycle: at once, or before long. Decides nothing."""

from __future__ import annotations

import asyncio
from typing import Final

# What has gone as decided changes nothing but what people are told: that can wait a little.
SOON_S: Final = 0.5
# A gang that is still being created: looked at now, its last pod would have to wait a period.
GATHERING_S: Final = 0.1


class DirtyMarks:
    """Set by whoever sees a change, taken by the loop; must be used inside a running loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None  # that of the earliest

    def at_once(self) -> None:
        self._event.set()

    def soon(self, within_s: float = SOON_S) -> None:
        """Be news in a moment, unless there is some already, or will be before."""
        if self._event.is_set():
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + within_s
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self.at_once)

    async def wait(self) -> None:
        await self._event.wait()

    def take(self) -> None:
        """All there is so far is being looked at."""
        self._event.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
