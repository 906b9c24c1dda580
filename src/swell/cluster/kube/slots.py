"""Bounds how many calls run at the same time; whoever has waited for too long is told so.

Cheaper than a semaphore and a time-out for each: calls end within a bounded time, and whenever one
does, those that wait are looked at.
"""

from __future__ import annotations

import asyncio
from collections import deque

from swell.runtime.errors import UnreachableError


class Slots:
    """So many may be taken at a time; must be used inside a running loop."""

    def __init__(self, n_slots: int, patience_s: float) -> None:
        self._n_free = n_slots
        self._patience_s = patience_s
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

    async def take(self) -> None:
        """Wait for a slot, first come first served."""
        if self._n_free:
            self._n_free -= 1
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append((waiter, loop.time() + self._patience_s))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back()  # it was ours already
            raise

    def give_back(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting:
            waiter, until = self._waiting.popleft()
            if waiter.done():
                continue
            if until < now:
                waiter.set_exception(UnreachableError("too many calls are waiting for the server"))
                continue
            waiter.set_result(None)
            return
        self._n_free += 1
