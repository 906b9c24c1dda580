"""Whether there is reason for a cycle: at once, or before long. Decides nothing."""

from __future__ import annotations

import asyncio
from typing import Final

# What has gone as decided changes nothing but what people are told: that can wait a little.
SOON_S: Final = 0.5


class News:
    """Set by whoever sees a change, taken by the loop; must be used inside a running loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def at_once(self) -> None:
        self._event.set()

    def soon(self) -> None:
        """Be news in a moment, unless there is some already."""
        if self._timer is None and not self._event.is_set():
            self._timer = asyncio.get_running_loop().call_later(SOON_S, self.at_once)

    async def wait(self) -> None:
        await self._event.wait()

    def take(self) -> None:
        """All there is so far is being looked at."""
        self._event.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
