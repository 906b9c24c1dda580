"""When the autoscaler looks: every period, and earlier when there is a reason to."""

from __future__ import annotations

import asyncio

from swell.runtime.clock import Clock

# The least time between two passes. It bounds the work while many jobs begin to wait, and a job is
# still served within a second of becoming pending.
_GAP_S = 0.5
# Room that bound pods leave is looked at so much later: those of one job end within this time.
_ROOM_S = 1.0
# And not before passes have rested for as many times what the last one took.
_REST = 20.0


class Pacing:
    """The times of passes. The caller runs one whenever `rest` returns."""

    def __init__(self, clock: Clock, period_s: float) -> None:
        self._clock = clock
        self._period_s = period_s
        self._woken = asyncio.Event()
        # A pass is due because room was left; none is for that before passes have rested.
        self._room_timer: asyncio.TimerHandle | None = None
        self._rested_at = 0.0

    def wake(self) -> None:
        """Have a pass run soon."""
        self._woken.set()

    def wake_for_room(self) -> None:
        """Have a pass run when the pods that leave together have left: a free device is lost time.

        Where jobs end all the time passes rest in between, and room is found by the next of them.
        """
        if self._room_timer is None:
            delay_s = max(_ROOM_S, self._rested_at - self._clock.monotonic())
            self._room_timer = asyncio.get_running_loop().call_later(delay_s, self._on_room)

    def begin(self) -> float:
        """Returns the time. To be called before the snapshot of a pass is taken.

        A job that begins to wait during the pass wakes the next one.
        """
        self._woken.clear()
        return self._clock.monotonic()

    async def rest(self, passed_s: float) -> None:
        """Wait for the next pass. The last one took so long."""
        self._rested_at = self._clock.monotonic() + _REST * passed_s
        await self._clock.sleep(_GAP_S)
        try:
            async with asyncio.timeout(max(0.0, self._period_s - _GAP_S)):
                await self._woken.wait()
        except TimeoutError:
            return

    def _on_room(self) -> None:
        self._room_timer = None
        self.wake()
