"""The work queue of keys to reconcile: each key is in it once, and has one worker at a time.

A key added while a worker has it is handed out again afterwards. A failing key comes back after a
growing delay; one that succeeds is forgotten, so memory follows the work at hand and not its
history. A key carries no payload: its worker reads the present state.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from swell.api.backoff import Backoff
from swell.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)

# The cap bounds how long a key still waits after the cause of its failures is gone.
RETRY = Backoff(base_s=0.05, cap_s=60.0)
# Timers may fire early by a rounding error; waiting less than this is not waiting.
_TICK_S = 0.001


class QueueClosedError(Exception):
    """The queue was closed and is empty: its workers end."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Retries of one key follow `backoff`, those of all keys together a token bucket."""

    backoff: Backoff = RETRY
    # The bucket: so many retries at once, and so many a second after that.
    retries_per_s: float = 50.0
    retry_burst: int = 500
    # A bound on memory, far beyond any cluster. A key refused for it returns with the next resync.
    keys_max: int = 1_000_000


class WorkQueue(Generic[K]):
    """The queue. A worker calls `get`, works, calls `retry` or `forget`, and then `done`.

              add_after, retry
    absent --------------------> delayed
      |                             | due
      | add                         v
      +--------------------------> ready --- get ---> working --- done ---> absent
                                    ^                    | add
                                    |                    v
                                    +------ done ------ dirty (working and added again)
    """

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        options: QueueOptions = QueueOptions(),  # noqa: B008
    ) -> None:
        self._clock = clock
        self._random = random
        self._options = options
        self._ready: deque[K] = deque()
        # Keys in `_ready`, and keys that were added again while a worker has them.
        self._dirty: dict[K, None] = {}
        self._working: dict[K, None] = {}
        # When delayed keys are due. An entry of the heap is void unless it is its key's latest.
        self._due: dict[K, tuple[float, int]] = {}
        self._timeline: list[tuple[float, int, K]] = []
        self._n_scheduled = 0
        self._failures: dict[K, int] = {}
        self._full_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._closed = False
        self.n_refused = 0

    def __len__(self) -> int:
        """The number of keys that wait for a worker now."""
        return len(self._dirty)

    @property
    def is_idle(self) -> bool:
        """Whether no key is ready or worked on; delayed ones do not count."""
        return not self._dirty and not self._working

    def failures(self, key: K) -> int:
        """Returns how often a key was retried since it last succeeded."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> bool:
        """Hand a key out as soon as possible. Returns False if the queue is closed or full."""
        if key in self._dirty:
            return True
        if self._is_refused():
            return False
        self._dirty[key] = None
        # A key that a worker has stays dirty, and `done` makes it ready.
        if key not in self._working:
            self._ready.append(key)
            self._wake_one()
        return True

    def add_after(self, key: K, delay_s: float) -> bool:
        """Hand a key out after a delay. Of several delays the shortest counts."""
        if delay_s <= 0:
            return self.add(key)
        due = self._clock.monotonic() + delay_s
        if key in self._due and self._due[key][0] <= due:
            return True
        if self._is_refused():
            return False
        self._n_scheduled += 1
        self._due[key] = (due, self._n_scheduled)
        heapq.heappush(self._timeline, (due, self._n_scheduled, key))
        self._drop_superseded()
        self._set_timer()
        return True

    def retry(self, key: K, at_least_s: float = 0.0) -> float:
        """Hand a key that failed out again after its back-off. Returns the delay."""
        self._failures[key] = self._failures.get(key, 0) + 1
        own_s = self._options.backoff.jittered_s(self._failures[key], self._random.random())
        delay_s = max(own_s, at_least_s, self._bucket_delay_s())
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: K) -> None:
        """Reset the failures of a key that has succeeded."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for the next key. No other worker gets it until `done`.

        A delayed addition of the same key is dropped: its worker will decide anew when to look
        again. Raises QueueClosedError once the queue is closed and empty.
        """
        while not self._ready:
            if self._closed:
                raise QueueClosedError
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Both may have happened in one turn of the loop: woken for a key, and cancelled.
                self._hand_over(waiter)
                raise
        key = self._ready.popleft()
        # Not dirty any more: an addition from now on means a change that this worker may miss.
        del self._dirty[key]
        self._working[key] = None
        self._due.pop(key, None)
        return key

    def done(self, key: K) -> None:
        """Give a key back, whether the work on it succeeded or not."""
        del self._working[key]
        if key in self._dirty:
            self._ready.append(key)
            self._wake_one()

    async def serve(self, handle: Callable[[K], Awaitable[None]]) -> None:
        """Be one worker: handle key after key until the queue is closed."""
        while True:
            try:
                key = await self.get()
            except QueueClosedError:
                return
            try:
                await handle(key)
            finally:
                self.done(key)

    def close(self) -> None:
        """Take no more keys, drop the delayed ones, and let workers finish the ready ones."""
        self._closed = True
        self._due.clear()
        self._timeline.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._wake_one()

    def _is_refused(self) -> bool:
        refused = self._closed or len(self._dirty) + len(self._due) >= self._options.keys_max
        self.n_refused += refused
        return refused

    def _bucket_delay_s(self) -> float:
        """Take a token from the bucket all keys share. Returns how long until it is there."""
        now = self._clock.monotonic()
        per_token_s = 1 / self._options.retries_per_s
        # The bucket as one number: the time at which it would be full if no more were taken.
        self._full_at = max(self._full_at, now) + per_token_s
        return max(0.0, self._full_at - now - self._options.retry_burst * per_token_s)

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _hand_over(self, waiter: asyncio.Future[None]) -> None:
        """Pass on the wake-up of a cancelled worker, or a ready key would wait for the next one."""
        if waiter.done() and not waiter.cancelled():
            self._wake_one()

    def _set_timer(self) -> None:
        """Keep one timer, for the earliest key that is due."""
        if not self._timeline:
            return
        due = self._timeline[0][0]
        if self._timer:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        delay_s = max(_TICK_S, due - self._clock.monotonic())
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._timeline and self._timeline[0][0] <= now:
            due, number, key = heapq.heappop(self._timeline)
            if self._due.get(key) == (due, number):
                del self._due[key]
                self.add(key)
        self._set_timer()

    def _drop_superseded(self) -> None:
        """Keep the heap from growing with entries that are void."""
        # Rebuilding at twice the live entries only makes the cost constant per addition. The 64
        # keeps small queues from rebuilding all the time.
        if len(self._timeline) > 2 * len(self._due) + 64:
            self._timeline = [
                (due, number, key)
                for due, number, key in self._timeline
                if self._due.get(key) == (due, number)
            ]
            heapq.heapify(self._timeline)
