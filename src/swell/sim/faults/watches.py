"""Watch streams that lag, repeat events, skip states, end, or lose their history.

A stream remains one that a Kubernetes server could send, alone or with the list that follows after
a cut: versions never decrease, and a state is skipped only if a later event of the object follows.
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
    """Open a watch with the faults that the injector decides, at opening and at every event."""
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
    """A stream that sends one bookmark and ends."""
    yield WatchEvent(EventType.BOOKMARK, None, version)


class _Arrivals(Generic[T]):
    """Events that the server has sent and the client has not received yet."""

    def __init__(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        self._waiting: list[WatchEvent[T]] = []
        self._changed = asyncio.Event()
        # Events are read as soon as they come, so that holding them back does not slow the server.
        self._pump = asyncio.create_task(self._fill(events))

    async def _fill(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        try:
            async for event in events:
                self._waiting.append(event)
                self._changed.set()
        finally:
            self._changed.set()

    async def next(self) -> WatchEvent[T] | None:
        """Returns the next event, or None at the end; raises the error that ended the stream."""
        while not self._waiting:
            if self._pump.done():
                self._pump.result()
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.pop(0)

    async def stop(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

    def take_all(self) -> list[WatchEvent[T]]:
        taken, self._waiting = self._waiting, []
        return taken


class _Delivery(Generic[T]):
    """Delivers events to the client: late, twice, merged, or not any more."""

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
    """Returns the events without the states in between, as a list after a cut would show them.

    An object that was replaced by one of the same name appears as modified. One that was created
    and deleted is still reported as deleted, because its creator knows of it already.
    """
    first: dict[Key | None, EventType] = {}
    last: dict[Key | None, WatchEvent[T]] = {}
    for event in events:
        key = _key_of(event)
        first.setdefault(key, event.type)
        last.pop(key, None)  # moved to the end: events are ordered by their last versions
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
    """Returns the key of an event's object, or None for a bookmark."""
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
