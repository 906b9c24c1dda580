"""Dirty marks: they say that a cycle is due, now or soon. Nothing is decided here."""

from __future__ import annotations

import asyncio
from typing import Final

# A change that went as planned only needs new statuses to be written: that can wait a little, and
# many such changes then cost one cycle.
SOON_S: Final = 0.5
# A gang whose pods are still being created. A cycle now would decide nothing, and the last pod
# would then have to wait for the next period.
GATHERING_S: Final = 0.1


class DirtyMarks:
    """One mark for the loop to wait for. Must be used inside a running event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None  # the earliest of all `mark_soon`

    def mark(self) -> None:
        self._event.set()

    def mark_soon(self, within_s: float = SOON_S) -> None:
        """Mark after a time, unless it is marked already or will be marked before."""
        if self._event.is_set():
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + within_s
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self.mark)

    async def wait(self) -> None:
        await self._event.wait()

    def clear(self) -> None:
        """Take the mark away. The caller then looks at all changes made so far."""
        self._event.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
