"""Records everything that happens in a namespace, straight from the server: the truth."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.runtime.cluster import Cluster, EventType, Selection

KINDS: tuple[Resource[object], ...] = (AI_TRAINING_JOBS, PODS, SERVICES, CONFIG_MAPS, POD_GROUPS)
WATCH_S = 600.0
SETTLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Happening:
    """An object as it was from a version on; gone with `is_gone`."""

    version: int
    kind: str
    body: Body
    is_gone: bool

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def owner(self) -> str:
        """UID of the controller."""
        owners = self.body["metadata"].get("ownerReferences") or ()
        return next((str(one["uid"]) for one in owners if one.get("controller")), "")


@dataclass
class Record:
    """What happened in one namespace, in the order of versions."""

    found: list[Happening] = field(default_factory=list)

    @property
    def happenings(self) -> list[Happening]:
        return sorted(self.found, key=lambda one: one.version)


@asynccontextmanager
async def recording(
    cluster: Cluster, namespace: str, kinds: Sequence[Resource[object]] = KINDS
) -> AsyncIterator[Record]:
    """Record from now on. The namespace is empty, so nothing has been missed."""
    record = Record()
    async with asyncio.TaskGroup() as group:
        started: list[asyncio.Event] = [asyncio.Event() for _ in kinds]
        tasks = [
            group.create_task(_follow(cluster, kind, namespace, record, event))
            for kind, event in zip(kinds, started, strict=True)
        ]
        for event in started:
            await event.wait()
        yield record
        await asyncio.sleep(SETTLE_S)
        for task in tasks:
            task.cancel()


async def _follow(
    cluster: Cluster,
    resource: Resource[object],
    namespace: str,
    record: Record,
    started: asyncio.Event,
) -> None:
    selection = Selection(namespace)
    listed = await cluster.list(resource.untyped(), selection)
    if listed.items:
        raise AssertionError(f"{namespace} is not empty: {listed.items}")
    with contextlib.suppress(asyncio.CancelledError):
        async with cluster.watch(
            resource.untyped(),
            selection,
            resource_version=listed.resource_version,
            timeout_s=WATCH_S,
        ) as events:
            started.set()
            async for event in events:
                if isinstance(event.object, dict):
                    gone = event.type is EventType.DELETED
                    version = int(event.resource_version)
                    found = Happening(version, resource.kind, event.object, gone)
                    record.found.append(found)
