"""What the clients of one simulated run share: the faults, the clock, and requests under way."""

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

# What a client waits for an answer. Watches may lag by more than this: faults must overlap.
CLIENT_TIMEOUT_S = 10.0


class PastLists(Protocol):
    """Collections as they once were."""

    async def list_back(
        self, resource: Resource[T], selection: Selection, n_commits: int
    ) -> ObjectList[T] | None:
        """The list some commits ago; None when it was no different or is forgotten."""
        ...


class ProcessLife(Protocol):
    """A process from one start to its next crash: whose calls are made, who dies of them."""

    @property
    def actor(self) -> str: ...

    def check_alive(self) -> None:
        """Raise CancelledError in what is left of a dead process."""
        ...

    async def crash(self, fault: Fault) -> None:
        """End this life. Does not return."""
        ...

    async def pause(self, duration_s: float) -> None:
        """Stand still, with everything else in the process."""
        ...


class SimulatedNetwork:
    """Between all clients and the API server."""

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
        """The ordinary time a message takes."""
        self._trips[site] += 1
        await self.clock.sleep(longest_s * self._chance.uniform("trip", site, self._trips[site]))

    def send_later(self, delay_s: float, request: Callable[[], Awaitable[object]]) -> None:
        """Deliver a request when its sender has given up on it, or died."""
        self._under_way = [task for task in self._under_way if not task.done()]
        task = asyncio.get_running_loop().create_task(
            self._send(delay_s, request),
            context=Context(),  # of no process: none can stop it
        )
        self._under_way.append(task)

    async def _send(self, delay_s: float, request: Callable[[], Awaitable[object]]) -> None:
        await self.clock.sleep(delay_s)
        await unanswered(request)


async def unanswered(request: Callable[[], Awaitable[object]]) -> None:
    """Carry out a request whose answer nobody will see: a refusal is lost as well."""
    try:
        await request()
    except ClusterError:
        return
