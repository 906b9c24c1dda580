"""The state that all clients of a run share: faults, clock, and requests in flight."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Protocol, TypeVar

from swell.api.resource import Resource
from swell.runtime.clock import Clock
from swell.runtime.cluster import ObjectList, Selection
from swell.runtime.errors import ClusterError
from swell.sim.chance import Chance
from swell.sim.faults.plan import Fault, FaultInjector

T = TypeVar("T")

# How long a client waits for an answer. Watches may lag by more: so a retry can happen before the
# first attempt is seen.
CLIENT_TIMEOUT_S = 10.0


class PastLists(Protocol):
    """Lists of collections as they were some commits ago."""

    async def list_back(
        self, resource: Resource[T], selection: Selection, n_commits: int
    ) -> ObjectList[T] | None:
        """Returns the list some commits ago, or None if it was the same or is compacted."""
        ...


class ProcessLife(Protocol):
    """One life of a process, from a start to the next crash."""

    @property
    def actor(self) -> str: ...

    def check_alive(self) -> None:
        """Raise CancelledError if the process has crashed: its tasks may not go on."""
        ...

    async def crash(self, fault: Fault) -> None:
        """End this life. Does not return."""
        ...

    async def pause(self, duration_s: float) -> None:
        """Stop the whole process for a time."""
        ...


class SimulatedNetwork:
    """The network between all clients and the API server."""

    def __init__(
        self, injector: FaultInjector, chance: Chance, clock: Clock, past: PastLists
    ) -> None:
        self.injector = injector
        self.clock = clock
        self.past = past
        self.refused_until_s: dict[str, float] = {}  # by kind
        self.calls: Counter[str] = Counter()  # by actor
        self.on_call: list[Callable[[str, str], None]] = []
        self._chance = chance
        self._trips: Counter[str] = Counter()
        self._under_way: list[asyncio.Task[None]] = []

    async def travel(self, site: str, longest_s: float = 0.02) -> None:
        """Wait for the ordinary latency of one message."""
        self._trips[site] += 1
        await self.clock.sleep(longest_s * self._chance.uniform("trip", site, self._trips[site]))

    def send_later(self, delay_s: float, request: Callable[[], Awaitable[object]]) -> None:
        """Deliver a request after its sender has given up or crashed."""
        self._under_way = [task for task in self._under_way if not task.done()]
        task = asyncio.get_running_loop().create_task(
            self._send(delay_s, request),
            context=Context(),  # outside of all scopes, so that a crash does not cancel it
        )
        self._under_way.append(task)

    async def _send(self, delay_s: float, request: Callable[[], Awaitable[object]]) -> None:
        await self.clock.sleep(delay_s)
        await unanswered(request)


async def unanswered(request: Callable[[], Awaitable[object]]) -> None:
    """Carry out a request whose answer is lost, even if it is an error."""
    try:
        await request()
    except ClusterError:
        return
