"""Objects that a component cannot decode, though everything else in the world can.

Another tool marks an object with the path of a field. A component's client then finds a list in
that field, as after a write of a wrong type that the server tolerates, and hands the object over as
malformed. The rules of the simulation go on reading the object as it is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from swell.api.codec import convert, to_body
from swell.api.kinds import NODES, PODS
from swell.api.meta import Key
from swell.api.resource import Resource
from swell.runtime.cluster import Cluster, Malformed, ObjectList, WatchEvent, merge_patch
from swell.runtime.errors import MalformedError, NotFoundError
from swell.sim.faults.plan import Fault
from swell.sim.scenario import USER
from swell.sim.world import SimulatedWorld

T = TypeVar("T")

UNDECODABLE = "F35 object cannot be decoded"
MARK = "sim/undecodable"
PHASE = "status.phase"  # of a pod: without it nobody knows whether it has ended
WRONG = [7]  # no field that we read may be a list of numbers
_FIELDS = {
    PODS: ("spec.containers", "status.containerStatuses", "spec.tolerations", PHASE),
    NODES: ("status.allocatable", "spec.taints", "status.conditions"),
}


class Marker:
    """Marks pods and nodes for a while."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._user = world.connect(USER)

    async def disturb(self, fault: Fault) -> bool:
        found = [
            (resource, key)
            for resource in _FIELDS
            for key, _ in self._world.storage.list(str(resource)).items
        ]
        if not found:
            return False
        resource, key = found[int(fault.amount * 997) % len(found)]
        fields = _FIELDS[resource]
        await self._write(resource, key, fields[int(fault.amount * 9973) % len(fields)])
        self._world.spawn(self._clear(resource, key, fault.scaled(5, 120)))
        return True

    async def _clear(self, resource: Resource[Any], key: Key, after_s: float) -> None:
        await self._world.clock.sleep(after_s)
        await self._write(resource, key, None)

    async def _write(self, resource: Resource[Any], key: Key, field: str | None) -> None:
        patch = merge_patch({"metadata": {"annotations": {MARK: field}}})
        with suppress(NotFoundError):
            await self._user.patch(resource, key, patch)


class HalfBlindCluster:
    """A client that finds a wrong value in the marked field of each marked object."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        found = await self._cluster.get(resource, key, resource_version=resource_version)
        return _answer(found, resource)

    async def list(self, resource: Resource[T], *args: Any, **more: Any) -> ObjectList[T]:
        page = await self._cluster.list(resource, *args, **more)
        seen = [_seen(item, resource) for item in page.items]
        return replace(
            page,
            items=tuple(one for one in seen if not isinstance(one, Malformed)),
            malformed=(*page.malformed, *(one for one in seen if isinstance(one, Malformed))),
        )

    @asynccontextmanager
    async def watch(
        self, resource: Resource[T], *args: Any, **more: Any
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with self._cluster.watch(resource, *args, **more) as events:
            yield _seen_events(events, resource)

    async def create(self, resource: Resource[T], *args: Any, **more: Any) -> T:
        return _answer(await self._cluster.create(resource, *args, **more), resource)

    async def patch(self, resource: Resource[T], *args: Any, **more: Any) -> T:
        return _answer(await self._cluster.patch(resource, *args, **more), resource)

    async def delete(self, resource: Resource[T], *args: Any, **more: Any) -> T | None:
        found = await self._cluster.delete(resource, *args, **more)
        return None if found is None else _answer(found, resource)


async def _seen_events(
    events: AsyncIterator[WatchEvent[T]], resource: Resource[T]
) -> AsyncIterator[WatchEvent[T]]:
    async for event in events:
        held = event.object
        if held is None or isinstance(held, Malformed):
            yield event
        else:
            yield replace(event, object=_seen(held, resource))


def _answer(found: T, resource: Resource[T]) -> T:
    seen = _seen(found, resource)
    if isinstance(seen, Malformed):
        raise MalformedError(seen.key, seen.error)
    return seen


def _seen(found: T, resource: Resource[T]) -> T | Malformed:
    metadata = getattr(found, "metadata", None)
    path = metadata.annotations.get(MARK) if metadata is not None else None
    if metadata is None or not path:
        return found
    body = to_body(found)
    above, _, field = path.partition(".")
    body.setdefault(above, {})[field] = WRONG
    try:
        return convert(body, resource.struct)
    except msgspec.ValidationError as error:
        version = metadata.resource_version
        return Malformed(metadata.key, metadata.uid, version, str(error), body)
