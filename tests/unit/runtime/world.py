"""A small world for the runtime's tests: the real store, a toy kind, and a line to interfere with.

`Line` sits between a component and the store: it can fail calls before or after they happened,
hold watch events back, and answer lists from the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from swell.api.kinds import PODS
from swell.api.meta import ApiStruct, Body, Key, ObjectMeta, Status, StatusDetails, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Storage
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
from swell.runtime.errors import ClusterError, error_for
from swell.runtime.informer import Informer, by_controller_key, by_label
from swell.runtime.queue import WorkQueue
from swell.runtime.reflector import InformerOptions
from swell.sim.loop import VirtualClock
from tests.plainrules import PlainRules, plain_registry

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class ToySpec(ApiStruct, frozen=True):
    replicas: int = 0


class ToyStatus(ApiStruct, frozen=True):
    phase: str = ""


class Toy(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ToySpec = ToySpec()
    status: ToyStatus = ToyStatus()


TOYS = Resource("toys.dev", "v1", "Toy", "toys", Toy)


def failure(code: int, reason: str = "", *, retry_after_s: int = 0) -> ClusterError:
    details = StatusDetails(retry_after_seconds=retry_after_s)
    return error_for(Status(code=code, reason=reason, message=f"{code} asked for", details=details))


@dataclass
class Line:
    """A cluster to interfere with; see the module's docstring. Calls are recorded as text."""

    inner: InProcessCluster
    calls: list[str] = field(default_factory=list)
    # By verb: what to raise instead of the call, and what to raise after it was done.
    fail_before: dict[str, list[Exception]] = field(default_factory=dict)
    fail_after: dict[str, list[Exception]] = field(default_factory=dict)
    # Which calls, by verb and key, or kind where there is no key, are refused while it says so.
    refuse: Callable[[str, str], bool] = lambda *_: False
    delay_s: float = 0.0
    answer_delay_s: float = 0.0  # of lists
    n_under_way: int = 0
    n_under_way_max: int = 0
    holds_events: bool = False
    past_lists: list[ObjectList[object]] = field(default_factory=list)
    cut: list[Exception | None] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.holds_events = False
        self._changed.set()

    def cut_watches(self, error: Exception | None = None) -> None:
        """End every watch now, politely or with an error, as soon as it has something to say."""
        self.cut.append(error)
        self._changed.set()

    def writes(self) -> list[str]:
        return [call for call in self.calls if call.split()[0] not in {"get", "list", "watch"}]

    async def _begin(self, verb: str, resource: Resource[object], key: object = "") -> None:
        self.calls.append(f"{verb} {resource} {key}".strip())
        self.n_under_way += 1
        self.n_under_way_max = max(self.n_under_way, self.n_under_way_max)
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.n_under_way -= 1
        if self.fail_before.get(verb):
            raise self.fail_before[verb].pop(0)
        if self.refuse(verb, str(key) or str(resource)):
            raise failure(403, "Forbidden")

    def _end(self, verb: str, answer: T) -> T:
        if self.fail_after.get(verb):
            raise self.fail_after[verb].pop(0)
        return answer

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        await self._begin("get", resource, key)
        return await self.inner.get(resource, key, resource_version=resource_version)

    async def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList[T]:
        await self._begin("list", resource, selection.fields or selection.labels)
        if self.past_lists:
            return self.past_lists.pop(0)  # type: ignore[return-value]
        found = await self.inner.list(
            resource, selection, limit=limit, continue_token=continue_token
        )
        await asyncio.sleep(self.answer_delay_s)
        return found

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float | None = None,
        is_known: IsKnown | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        await self._begin("watch", resource, resource_version)
        async with self.inner.watch(
            resource,
            selection,
            resource_version=resource_version,
            timeout_s=timeout_s,
            is_known=is_known,
        ) as events:
            yield self._passed_on(events)

    async def _passed_on(
        self, events: AsyncIterator[WatchEvent[T]]
    ) -> AsyncIterator[WatchEvent[T]]:
        async for event in events:
            while self.holds_events:
                self._changed.clear()
                await self._changed.wait()
            if self.cut:
                error = self.cut.pop()
                if error:
                    raise error
                return
            yield event

    async def create(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        await self._begin("create", resource, body["metadata"]["name"])
        return self._end("create", await self.inner.create(resource, body, options))

    async def update(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        await self._begin("update", resource, body["metadata"]["name"])
        return self._end("update", await self.inner.update(resource, body, options))

    async def patch(
        self, resource: Resource[T], key: Key, patch: Patch, options: WriteOptions = PLAIN
    ) -> T:
        await self._begin("patch", resource, key)
        return self._end("patch", await self.inner.patch(resource, key, patch, options))

    async def delete(
        self, resource: Resource[T], key: Key, deletion: Deletion = PLAIN_DELETION
    ) -> T | None:
        await self._begin("delete", resource, key)
        return self._end("delete", await self.inner.delete(resource, key, deletion))

    async def try_delete(self, resource: Resource[T], key: Key) -> Uid:
        await self._begin("trydelete", resource, key)
        return self._end("trydelete", await self.inner.try_delete(resource, key))

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: Deletion = PLAIN_DELETION,
    ) -> None:
        raise AssertionError("controllers never delete collections")


class World:
    """The store, a client for the test itself, and lines for the components under test."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.random = Random(1)
        self.storage = Storage(self.clock.now)
        self._registry = plain_registry()
        self.serve(TOYS)
        uids = iter(range(1, 10**9))
        self.api = ApiServer(
            self.storage,
            self._registry,
            self.clock,
            new_uid=lambda: f"uid-{next(uids)}",
            rng=Random(2),
        )
        self.api.ensure_namespaces()
        self.user = InProcessCluster(self.api, "user")

    def serve(self, kind: Resource[Any]) -> None:
        """Serves a kind of objects without rules of their own."""
        self._registry.add(
            ServedKind(
                group=kind.group,
                version=kind.version,
                kind=kind.kind,
                plural=kind.plural,
                rules=PlainRules(has_status=True),
                subresources=frozenset({"status"}),
                custom=True,
            )
        )

    def line(self, actor: str = "controller") -> Line:
        return Line(InProcessCluster(self.api, actor))

    def toys(self, line: Line, **options: object) -> Informer[Toy]:
        return Informer(
            line,
            TOYS,
            clock=self.clock,
            random=self.random,
            options=InformerOptions(**options),  # type: ignore[arg-type]
        )

    def pods(self, line: Line, **options: object) -> Informer[Pod]:
        return Informer(
            line,
            PODS,
            clock=self.clock,
            random=self.random,
            indexes=(by_label("toy"), by_controller_key("Toy")),
            options=InformerOptions(**options),  # type: ignore[arg-type]
        )

    async def add_toy(self, name: str = "t", replicas: int = 0) -> Toy:
        return await self.user.create(TOYS, toy_body(name, replicas))


def toy_body(name: str, replicas: int = 0) -> Body:
    return {
        "apiVersion": "toys.dev/v1",
        "kind": "Toy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas},
    }


def pod_body(name: str, owner: Toy | None = None) -> Body:
    metadata: Body = {"name": name, "namespace": "default"}
    if owner:
        metadata["labels"] = {"toy": owner.metadata.name}
        metadata["ownerReferences"] = [
            {
                "apiVersion": "toys.dev/v1",
                "kind": "Toy",
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
                "controller": True,
            }
        ]
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def key(name: str) -> Key:
    return Key("default", name)


def uid_of(found: Toy | Pod | None) -> Uid:
    assert found is not None
    return found.metadata.uid


async def started(*informers: Informer[Any]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    for informer in informers:
        await informer.wait_synced()
    return tasks


async def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    """Let time pass until something holds."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 (virtual time: waiting costs nothing)
            await asyncio.sleep(0.01)


def held_keys(queue: WorkQueue[K]) -> set[K]:
    """Every key a work queue knows of, delayed and failing ones included."""
    return {*queue._dirty, *queue._working, *queue._due, *queue._failures}
