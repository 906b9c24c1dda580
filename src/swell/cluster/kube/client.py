"""The cluster port for any Kubernetes, over HTTP(S)."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TypeVar

from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.cluster.decoding import decode_event
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access
from swell.cluster.kube.answers import LineSplitter
from swell.cluster.kube.calls import KubeCall
from swell.cluster.kube.policy import LIMITS, WATCH_S, ClientLimits
from swell.cluster.kube.transport import Read, Transport
from swell.runtime.clock import Clock
from swell.runtime.cluster import (
    EVERYTHING,
    PLAIN,
    PLAIN_DELETION,
    Deletion,
    IsKnown,
    ObjectList,
    Patch,
    Selection,
    WatchEvent,
    WriteOptions,
)

T = TypeVar("T")


class KubeCluster:
    """The cluster port; made by `connect`. Every method is a call of `calls`."""

    def __init__(self, transport: Transport, rng: random.Random) -> None:
        self._transport = transport
        self._rng = rng

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        return await self._transport.send(calls.get(resource, key, resource_version))

    async def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList[T]:
        call = calls.list_page(
            resource,
            selection,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )
        return await self._transport.send(call)

    def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float | None = None,
        is_known: IsKnown | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        life_s = self._rng.uniform(*WATCH_S) if timeout_s is None else timeout_s
        # A time-out of 0 means the server's own choice, which may be an hour.
        call = calls.watch(resource, selection, resource_version, max(1, round(life_s)))
        return self._watch(call, life_s, lambda line: decode_event(line, resource, is_known))

    @asynccontextmanager
    async def _watch(
        self, call: KubeCall[None], life_s: float, decode: Callable[[bytes], WatchEvent[T]]
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with (
            self._transport.stream(call, life_s) as read,
            aclosing(self._events(read, decode)) as events,
        ):
            yield events

    async def _events(
        self, read: Read, decode: Callable[[bytes], WatchEvent[T]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        lines = LineSplitter(self._transport.limits.line_bytes_max)
        while piece := await read():
            for line in lines.cut(piece):
                if line:  # a server may keep a quiet watch alive with empty lines
                    yield decode(line)

    def follow(self, path: str, life_s: float) -> AbstractAsyncContextManager[Read]:
        """Opens an answer that is no object and may go on for long, such as a log."""
        return self._transport.stream(calls.raw(path, accept="*/*"), life_s)

    async def ask_pod(
        self,
        pod: Key,
        port: int,
        path: str,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        within_s: float,
        bytes_max: int,
    ) -> tuple[int, bytes]:
        """Asks a program through the server; returns the status and the content of its answer."""
        call = calls.pod_port(pod, port, path, headers)
        answer = await self._transport.ask(call, within_s, bytes_max)
        return answer.head.status, answer.body

    async def create(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        return await self._transport.send(calls.create(resource, body, options))

    async def update(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        return await self._transport.send(calls.update(resource, body, options))

    async def patch(
        self, resource: Resource[T], key: Key, patch: Patch, options: WriteOptions = PLAIN
    ) -> T:
        return await self._transport.send(calls.patch(resource, key, patch, options))

    async def delete(
        self, resource: Resource[T], key: Key, deletion: Deletion = PLAIN_DELETION
    ) -> T | None:
        return await self._transport.send(calls.delete(resource, key, deletion))

    async def try_delete(self, resource: Resource[T], key: Key) -> Uid:
        return await self._transport.send(calls.try_delete(resource, key))

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: Deletion = PLAIN_DELETION,
    ) -> None:
        await self._transport.send(calls.delete_collection(resource, selection, deletion))


@asynccontextmanager
async def connect(
    access: Access, clock: Clock, rng: random.Random, limits: ClientLimits = LIMITS
) -> AsyncIterator[KubeCluster]:
    """Opens a cluster for the time of the context. It sends nothing before the first call."""
    async with Transport(access, clock, rng, limits) as transport:
        yield KubeCluster(transport, rng)
