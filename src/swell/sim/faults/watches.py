"""Watch streams that lag, repeat themselves, skip, stop and lose their history.

A stream stays one a Kubernetes server could have sent, alone or with the list that follows a cut:
versions never fall, and what is left out is only what a later event of the object makes good.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from swell.api.meta import Key, ObjectMeta, Status
from swell.runtime.cluster import EventType, Malformed, WatchEvent
from swell.runtime.errors import UnreachableError, error_for
from swell.sim.faults.network import ProcessLife, SimulatedNetwork
from swell.sim.faults.plan import Fault, FaultKind

T = TypeVar("T")

ON_OPEN = (
    FaultKind.GONE,
    FaultKind.UNREACHABLE,
    FaultKind.SERVER_ERROR,
    FaultKind.BOOKMARK_ONLY,
    FaultKind.OUT_OF_STEP,
)
ON_EVENT = (
    FaultKind.GONE,
    FaultKind.CUT,
    FaultKind.DELAYED,
    FaultKind.DUPLICATED,
    FaultKind.SKIPPED,
    FaultKind.OUT_OF_STEP,
)


@contextlib.asynccontextmanager
async def disturbed_watch(
    stream: AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]],
    network: SimulatedNetwork,
    life: ProcessLife,
    kind: str,
    version: str,
) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
    """A watch with the faults the book decides on, when it opens and at every event."""
    life.check_alive()
    site = f"{life.actor} watch {kind}"
    fault = network.injector.consult(site, ON_OPEN)
    network.calls[life.actor] += 1
    for hook in network.on_call:
        hook(life.actor, site)
    await network.travel(site)
    life.check_alive()
    if fault is not None:
        network.injector.hit(fault)
        _refuse_opening(fault)
    async with stream as events:
        if fault is not None and fault.kind == FaultKind.BOOKMARK_ONLY:
            yield _only_bookmark(version)
            return
        arrivals = _Arrivals(events)
        delivery = _Delivery(network, life, kind, arrivals)
        if fault is not None:
            delivery.held_until_s = network.clock.monotonic() + fault.scaled(20, 120)
        try:
            yield delivery.events()
        finally:
            await arrivals.stop()


def _refuse_opening(fault: Fault) -> None:
    match fault.kind:
        case FaultKind.GONE:
            raise error_for(Status(status="Failure", code=410, reason="Expired"))
        case FaultKind.SERVER_ERROR:
            raise error_for(Status(status="Failure", code=500, reason="InternalError"))
        case FaultKind.UNREACHABLE:
            raise UnreachableError(fault.site)


async def _only_bookmark(version: str) -> AsyncIterator[WatchEvent[T]]:
    """A stream that says how far it got, and ends."""
    yield WatchEvent(EventType.BOOKMARK, None, version)


class _Arrivals(Generic[T]):
    """Events the server has sent and the client has not yet been given."""

    def __init__(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        self._waiting: list[WatchEvent[T]] = []
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._fill(events))

    async def _fill(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        try:
            async for event in events:
                self._waiting.append(event)
                self._news.set()
        finally:
            self._news.set()

    async def next(self) -> WatchEvent[T] | None:
        """The next event, None at the end of the stream; raises what ended it otherwise."""
        while not self._waiting:
            if self._pump.done():
                self._pump.result()
                return None
            self._news.clear()
            await self._news.wait()
        return self._waiting.pop(0)

    async def stop(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

    def take_all(self) -> list[WatchEvent[T]]:
        taken, self._waiting = self._waiting, []
        return taken


class _Delivery(Generic[T]):
    """Hands arrivals to the client: late, twice, merged, or no more."""

    def __init__(
        self, network: SimulatedNetwork, life: ProcessLife, kind: str, arrivals: _Arrivals[T]
    ) -> None:
        self._network = network
        self._life = life
        self._kind = kind
        self._arrivals = arrivals
        self.held_until_s = 0.0

    async def events(self) -> AsyncIterator[WatchEvent[T]]:
        while (event := await self._arrivals.next()) is not None:
            site = f"{self._life.actor} event {self._kind} {_key_of(event)}"
            fault = self._network.injector.consult(site, ON_EVENT)
            await self._network.travel(site, longest_s=0.1)
            if fault is not None:
                self._network.injector.hit(fault)
                if fault.kind == FaultKind.CUT and fault.amount < 0.5:
                    return
                self._begin(fault)
            await self._hold()
            for late in self._due(event, fault):
                self._life.check_alive()
                yield late

    def _begin(self, fault: Fault) -> None:
        now_s = self._network.clock.monotonic()
        match fault.kind:
            case FaultKind.CUT:
                raise UnreachableError(fault.site)
            case FaultKind.GONE:
                raise error_for(Status(status="Failure", code=410, reason="Expired"))
            case FaultKind.DELAYED | FaultKind.SKIPPED:
                self.held_until_s = now_s + fault.scaled(2, 45)
            case FaultKind.OUT_OF_STEP:
                self.held_until_s = now_s + fault.scaled(20, 120)

    async def _hold(self) -> None:
        left_s = self.held_until_s - self._network.clock.monotonic()
        if left_s > 0:
            await self._network.clock.sleep(left_s)

    def _due(self, event: WatchEvent[T], fault: Fault | None) -> Iterable[WatchEvent[T]]:
        if fault is not None and fault.kind == FaultKind.DUPLICATED:
            return (event, event)
        if fault is not None and fault.kind == FaultKind.SKIPPED:
            return merged([event, *self._arrivals.take_all()])
        return (event,)


def merged(events: Iterable[WatchEvent[T]]) -> list[WatchEvent[T]]:
    """The same change with the states in between left out, as a list after a cut would show it.

    An object replaced by one of the same name appears as a modification. One that came and went
    is still reported gone: its creator knew of it before the watch did.
    """
    first: dict[Key | None, EventType] = {}
    last: dict[Key | None, WatchEvent[T]] = {}
    for event in events:
        key = _key_of(event)
        first.setdefault(key, event.type)
        last.pop(key, None)  # to the end: the order is that of the last versions
        last[key] = event
    result: list[WatchEvent[T]] = []
    for key, event in last.items():
        is_new = first[key] is EventType.ADDED
        if event.type in {EventType.ADDED, EventType.MODIFIED}:
            shown = EventType.ADDED if is_new else EventType.MODIFIED
            result.append(WatchEvent(shown, event.object, event.resource_version))
        else:
            result.append(event)
    return result


def _key_of(event: WatchEvent[T]) -> Key | None:
    """Which object an event is about; None for a bookmark."""
    held: object = event.object
    if held is None:
        return None
    if isinstance(held, Malformed):
        return held.key
    if isinstance(held, dict):
        metadata = held["metadata"]
        return Key(metadata.get("namespace", ""), metadata["name"])
    metadata = getattr(held, "metadata", None)
    if not isinstance(metadata, ObjectMeta):
        raise TypeError(f"not an API object: {type(held).__name__}")
    return metadata.key
