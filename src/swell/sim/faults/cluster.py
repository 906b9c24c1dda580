"""A Cluster with faults in front of another Cluster, for one life of one process.

Every call gets a site and is counted here. The injector decides its fault, and `effects` carries it
out. Calls of a process that has crashed never return.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.runtime import cluster as port
from swell.runtime.cluster import EVERYTHING, PLAIN, PLAIN_DELETION, Cluster, Selection
from swell.sim.faults.effects import SimulatedCall, apply_fault, refuse_while_forbidden
from swell.sim.faults.network import ProcessLife, SimulatedNetwork
from swell.sim.faults.plan import FaultKind
from swell.sim.faults.watches import disturbed_watch

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})

T = TypeVar("T")
R = TypeVar("R")

ON_READ = (
    FaultKind.SERVER_ERROR,
    FaultKind.THROTTLED,
    FaultKind.UNREACHABLE,
    FaultKind.TIMEOUT_BEFORE,
    FaultKind.SLOW,
    FaultKind.REFUSED,
    FaultKind.TRUNCATED,
)
ON_STALE_LIST = (*ON_READ, FaultKind.STALE_LIST)
ON_CREATE = (
    *ON_READ,
    FaultKind.TIMEOUT_AFTER,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.CRASH_LOOP,
    FaultKind.PAUSED,
)
# A create has no precondition, so no controller could be safe from one that is applied much later;
# API servers drop requests whose client has gone. Other writes have preconditions.
ON_CHANGE = (*ON_CREATE, FaultKind.CONFLICT, FaultKind.APPLIED_LATE)


class FaultyCluster:
    """A Cluster whose calls have the faults that the injector decides."""

    def __init__(self, inner: Cluster, network: SimulatedNetwork, life: ProcessLife) -> None:
        self._inner = inner
        self._network = network
        self._life = life
        # Kinds that this life has listed. A later list may be made stale, although a server would
        # not do that: an informer must never go back in time. A first list is never stale, because
        # a process without memory could not notice.
        self._listed: set[str] = set()

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        def request() -> Awaitable[T]:
            return self._inner.get(resource, key, resource_version=resource_version)

        return await self._call("get", resource, key, request, ON_READ)

    async def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> port.ObjectList[T]:
        kind = str(resource)
        is_whole = not (selection.labels or selection.fields or continue_token)
        may_be_stale = is_whole and (resource_version == "0" or kind in self._listed)
        found = await self._carry_out(
            SimulatedCall(
                self._site("list", resource),
                kind,
                lambda: self._inner.list(
                    resource,
                    selection,
                    limit=limit,
                    continue_token=continue_token,
                    resource_version=resource_version,
                ),
                ON_STALE_LIST if may_be_stale else ON_READ,
                lambda n: self._network.past.list_back(resource, selection, n),
            )
        )
        if is_whole:
            self._listed.add(kind)
        return found

    def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float | None = None,
        is_known: port.IsKnown | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[port.WatchEvent[T]]]:
        stream = self._inner.watch(
            resource,
            selection,
            resource_version=resource_version,
            timeout_s=timeout_s,
            is_known=is_known,
        )
        return disturbed_watch(stream, self._network, self._life, str(resource), resource_version)

    async def create(
        self, resource: Resource[T], body: Body, options: port.WriteOptions = PLAIN
    ) -> T:
        def request() -> Awaitable[T]:
            return self._inner.create(resource, body, options)

        return await self._call("create", resource, _key_in(body), request, ON_CREATE)

    async def update(
        self, resource: Resource[T], body: Body, options: port.WriteOptions = PLAIN
    ) -> T:
        def request() -> Awaitable[T]:
            return self._inner.update(resource, body, options)

        return await self._call("update", resource, _key_in(body), request, ON_CHANGE)

    async def patch(
        self, resource: Resource[T], key: Key, patch: port.Patch, options: port.WriteOptions = PLAIN
    ) -> T:
        def request() -> Awaitable[T]:
            return self._inner.patch(resource, key, patch, options)

        return await self._call("patch", resource, key, request, ON_CHANGE)

    async def delete(
        self, resource: Resource[T], key: Key, deletion: port.Deletion = PLAIN_DELETION
    ) -> T | None:
        def request() -> Awaitable[T | None]:
            return self._inner.delete(resource, key, deletion)

        return await self._call("delete", resource, key, request, ON_CHANGE)

    async def try_delete(self, resource: Resource[T], key: Key) -> Uid:
        def request() -> Awaitable[Uid]:
            return self._inner.try_delete(resource, key)

        return await self._call("trydelete", resource, key, request, ON_READ)

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: port.Deletion = PLAIN_DELETION,
    ) -> None:
        def request() -> Awaitable[None]:
            return self._inner.delete_collection(resource, selection, deletion)

        await self._call("deletecollection", resource, None, request, ON_CHANGE)

    def _site(self, verb: str, resource: Resource[T], key: Key | None = None) -> str:
        what = f"{resource}/{resource.subresource}" if resource.subresource else str(resource)
        return f"{self._life.actor} {verb} {what}" + (f" {key}" if key else "")

    async def _call(
        self,
        verb: str,
        resource: Resource[T],
        key: Key | None,
        request: Callable[[], Awaitable[R]],
        offered: tuple[FaultKind, ...],
    ) -> R:
        site = self._site(verb, resource, key)
        return await self._carry_out(SimulatedCall(site, str(resource), request, offered))

    async def _carry_out(self, call: SimulatedCall[R]) -> R:
        network, life = self._network, self._life
        life.check_alive()
        fault = network.injector.consult(call.site, call.offered)
        network.calls[life.actor] += 1
        for hook in network.on_call:
            hook(life.actor, call.site)
        await network.travel(call.site)
        # The process may have crashed while the request was on its way: it is lost then.
        life.check_alive()
        refuse_while_forbidden(call, network)
        answer = await (
            call.request() if fault is None else apply_fault(call, fault, network, life)
        )
        await network.travel(call.site)
        life.check_alive()
        return answer


def _key_in(body: Body) -> Key:
    metadata = body.get("metadata") or {}
    return Key(metadata.get("namespace", ""), metadata.get("name", ""))
