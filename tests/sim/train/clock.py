"""Virtual time: a queue of functions to be called at their moments."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class VirtualClock:
    """Calls functions in the order of their times; those of one time in the order they came."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._numbers), call))

    def after(self, delay: float, call: Callable[[], None]) -> None:
        self.at(self.now + delay, call)

    def run_until(self, end: float, is_over: Callable[[], bool]) -> None:
        while self._queue and self._queue[0][0] <= end and not is_over():
            self.now, _, call = heapq.heappop(self._queue)
            call()
        if not is_over():
            self.now = end
