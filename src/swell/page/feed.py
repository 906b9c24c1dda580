"""Follows the objects that one user may see, and hands changes to that user's open pages.

Informers keep the rows current; a change costs one row, whatever the size of the cluster. A page
that does not read loses no change: of one object it gets the newest row, when it reads again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from swell.api.kinds import AI_TRAINING_JOBS, NODES, QUEUES, TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.page.rows import job_row, node_row, queue_row
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import ForbiddenError, NotFoundError
from swell.runtime.informer import Informer

# Changes that come within this time are sent together.
SETTLE_S = 0.1


@dataclass(frozen=True, slots=True)
class FollowedKind:
    """A kind of object that pages show, and the row of one."""

    name: str  # in the answers
    resource: Resource[Any]
    row: Callable[[Any], Body]


KINDS = (
    FollowedKind("aitrainingjobs", AI_TRAINING_JOBS, job_row),
    FollowedKind("trainingjobs", TRAINING_JOBS, job_row),
    FollowedKind("queues", QUEUES, queue_row),
    FollowedKind("nodes", NODES, node_row),
)


@dataclass(eq=False, slots=True)
class PageStream:
    """The changes that one open page has not been sent."""

    pending: dict[tuple[str, Key], None] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class ObjectFeed:
    """Rows of everything that one user may see. `run` keeps them current until cancelled."""

    def __init__(
        self, cluster: Cluster, namespaces: Iterable[str], *, clock: Clock, random: Random
    ) -> None:
        self._cluster, self._clock, self._random = cluster, clock, random
        self._namespaces = tuple(namespaces) or ("",)
        self._informers: dict[str, list[Informer[Any]]] = {kind.name: [] for kind in KINDS}
        self._rows = {kind.name: kind.row for kind in KINDS}
        self._streams: set[PageStream] = set()
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Follow what may be listed; what may not be is not shown."""
        for kind in KINDS:
            for namespace in self._namespaces if kind.resource.namespaced else ("",):
                if await self._may_list(kind, namespace):
                    self._informers[kind.name].append(self._informer(kind, namespace))
        every = [one for some in self._informers.values() for one in some]
        async with asyncio.TaskGroup() as tasks:
            for informer in every:
                tasks.create_task(informer.run())
            for informer in every:
                await informer.wait_synced()
            self.ready.set()

    async def _may_list(self, kind: FollowedKind, namespace: str) -> bool:
        try:
            await self._cluster.list(kind.resource, Selection(namespace), limit=1)
        except (ForbiddenError, NotFoundError):
            return False
        return True

    def _informer(self, kind: FollowedKind, namespace: str) -> Informer[Any]:
        informer: Informer[Any] = Informer(
            self._cluster,
            kind.resource,
            clock=self._clock,
            random=self._random,
            selection=Selection(namespace),
        )
        informer.add_handler(lambda key: self._changed(kind.name, key))
        return informer

    def _changed(self, kind: str, key: Key) -> None:
        for stream in self._streams:
            stream.pending[kind, key] = None
            stream.changed.set()

    def get(self, kind: str, key: Key) -> Any:
        """The object under a key, if this user may see it."""
        found = (one.get(key) for one in self._informers.get(kind, ()))
        return next((one for one in found if one is not None), None)

    def rows(self) -> dict[str, list[Body]]:
        """All rows, by kind."""
        return {
            name: [self._rows[name](held) for one in informers for held in one.all()]
            for name, informers in self._informers.items()
        }

    def open_stream(self) -> PageStream:
        stream = PageStream()
        self._streams.add(stream)
        return stream

    def close_stream(self, stream: PageStream) -> None:
        self._streams.discard(stream)

    async def next_changes(self, stream: PageStream, within_s: float) -> list[Body]:
        """Wait for changes, up to a time; none if there were none."""
        try:
            async with asyncio.timeout(within_s):
                await stream.changed.wait()
        except TimeoutError:
            return []
        await self._clock.sleep(SETTLE_S)
        pending, stream.pending = stream.pending, {}
        stream.changed.clear()
        return [self._change(kind, key) for kind, key in pending]

    def _change(self, kind: str, key: Key) -> Body:
        held = self.get(kind, key)
        row = self._rows[kind](held) if held is not None else None
        return {"kind": kind, "namespace": key.namespace, "name": key.name, "row": row}
