"""Fencing: keeps a process that may no longer lead from writing.

A guarded cluster reads as usual. A write is refused once the guard has closed; one that is still
waiting when it closes is abandoned, and its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.runtime.clock import Clock
from swell.runtime.cluster import (
    EVERYTHING,
    PLAIN,
    PLAIN_DELETION,
    Cluster,
    Deletion,
    Patch,
    Selection,
    WriteOptions,
)
from swell.runtime.errors import OutcomeUnknownError, UnreachableError

T = TypeVar("T")


class NotLeaderError(UnreachableError):
    """A write was not sent, because this process may not be the leader any more."""


class Guard(Protocol):
    """Decides whether a write may be sent, and sends it."""

    async def admit(self, write: Callable[[], Awaitable[T]]) -> T: ...


class LeaderGuard:
    """A guard that is open until a moment of the monotonic clock, and closed at first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadline = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._deadline

    def open_until(self, deadline: float) -> None:
        self._deadline = deadline

    def close(self) -> None:
        self._deadline = float("-inf")

    async def admit(self, write: Callable[[], Awaitable[T]]) -> T:
        """Send a write while the guard is open, and wait for it no longer than it stays open.

        Raises NotLeaderError if it is closed, OutcomeUnknownError if it closes meanwhile.
        """
        left_s = self._deadline - self._clock.monotonic()
        if left_s <= 0:
            raise NotLeaderError("not the leader")
        try:
            async with asyncio.timeout(left_s) as limit:
                return await write()
        except TimeoutError:
            # The write's own time-outs are passed on as they are.
            if limit.expired():
                raise OutcomeUnknownError("leadership ended while writing") from None
            raise


class GuardedCluster:
    """A cluster whose writes a guard has to admit."""

    def __init__(self, cluster: Cluster, guard: Guard) -> None:
        self._cluster = cluster
        self._guard = guard
        # Reads need no guard: a stale reader does no harm.
        self.get, self.list, self.watch = cluster.get, cluster.list, cluster.watch

    async def create(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        return await self._guard.admit(lambda: self._cluster.create(resource, body, options))

    async def update(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        return await self._guard.admit(lambda: self._cluster.update(resource, body, options))

    async def patch(
        self, resource: Resource[T], key: Key, patch: Patch, options: WriteOptions = PLAIN
    ) -> T:
        return await self._guard.admit(lambda: self._cluster.patch(resource, key, patch, options))

    async def delete(
        self, resource: Resource[T], key: Key, deletion: Deletion = PLAIN_DELETION
    ) -> T | None:
        return await self._guard.admit(lambda: self._cluster.delete(resource, key, deletion))

    async def try_delete(self, resource: Resource[T], key: Key) -> Uid:
        return await self._guard.admit(lambda: self._cluster.try_delete(resource, key))

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: Deletion = PLAIN_DELETION,
    ) -> None:
        await self._guard.admit(
            lambda: self._cluster.delete_collection(resource, selection, deletion)
        )
