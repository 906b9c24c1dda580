"""A queue of keys to look at: each at most once in it, each with one worker at a time.

A key added while it is being worked on comes again afterwards. Failing keys come back later and
later; a key that succeeds is forgotten, so memory follows the work at hand and not its history.
Holds no payload and decides nothing: what to do for a key is read from the world.
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

RETRY = Backoff(base_s=0.05, cap_s=60.0)
# Timers may fire early by a rounding error; waiting less than this is not waiting.
_TICK_S = 0.001


class QueueClosedError(Exception):
    """The queue was closed and is empty: its worker may go home."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Retries of one key follow `backoff`; those of all keys together the bucket."""

    backoff: Backoff = RETRY
    retries_per_s: float = 50.0
    retry_burst: int = 500
    # Far beyond any cluster: a bound on memory. A refused key comes back with the next resync.
    keys_max: int = 1_000_000


class WorkQueue(Generic[K]):
    """See the module's docstring. `get` a key, work, `retry` or `forget` it, then `done`."""

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
        # Keys in `_ready`, and keys that must come again when their worker is done.
        self._dirty: dict[K, None] = {}
        self._working: dict[K, None] = {}
        # When delayed keys are due. An entry of the timeline counts while it is its key's latest.
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
        """Keys that wait for a worker now."""
        return len(self._dirty)

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is worked on; delayed ones do not count."""
        return not self._dirty and not self._working

    def failures(self, key: K) -> int:
        """How often a key was retried since it last succeeded."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> bool:
        """Have a key worked on as soon as possible; False when refused (closed or full)."""
        if key in self._dirty:
            return True
        if self._is_refused():
            return False
        self._dirty[key] = None
        if key not in self._working:
            self._ready.append(key)
            self._wake_one()
        return True

    def add_after(self, key: K, delay_s: float) -> bool:
        """Have a key worked on later. Of several delays the shortest counts."""
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
        """Have a key that failed worked on later, the later the more often; returns the delay."""
        self._failures[key] = self._failures.get(key, 0) + 1
        own_s = self._options.backoff.jittered_s(self._failures[key], self._random.random())
        delay_s = max(own_s, at_least_s, self._bucket_delay_s())
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: K) -> None:
        """A key has succeeded: its failures count no longer."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; no other worker gets it until `done`. QueueClosedError at the end.

        A delayed addition of the key is void now: whoever works on it will say when to come back.
        """
        while not self._ready:
            if self._closed:
                raise QueueClosedError
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._hand_over(waiter)
                raise
        key = self._ready.popleft()
        del self._dirty[key]
        self._working[key] = None
        self._due.pop(key, None)
        return key

    def done(self, key: K) -> None:
        """A worker has finished with a key, whatever came of it."""
        del self._working[key]
        if key in self._dirty:
            self._ready.append(key)
            self._wake_one()

    async def serve(self, handle: Callable[[K], Awaitable[None]]) -> None:
        """Work as one of perhaps several: key after key, until the queue is closed."""
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
        """Take no more keys, drop the delayed ones, and let workers finish what is ready."""
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
        """Take a token from the bucket all keys share, and say in how long it will be there."""
        now = self._clock.monotonic()
        per_token_s = 1 / self._options.retries_per_s
        # The bucket as one number: when it would be full again if nobody took from it.
        self._full_at = max(self._full_at, now) + per_token_s
        return max(0.0, self._full_at - now - self._options.retry_burst * per_token_s)

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _hand_over(self, waiter: asyncio.Future[None]) -> None:
        """A cancelled worker passes on a wake-up it will not use."""
        if waiter.done() and not waiter.cancelled():
            self._wake_one()

    def _set_timer(self) -> None:
        """Have one timer, for the earliest of what is due."""
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
        """Keep the timeline from growing with delays that were shortened or voided."""
        if len(self._timeline) > 2 * len(self._due) + 64:
            self._timeline = [
                (due, number, key)
                for due, number, key in self._timeline
                if self._due.get(key) == (due, number)
            ]
            heapq.heapify(self._timeline)
