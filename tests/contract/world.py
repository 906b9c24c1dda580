"""What a behaviour is given to act on, and the few words it is written in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from swell.api.kinds import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SERVICES,
)
from swell.api.meta import Body, Key, Status
from swell.api.resource import Resource
from swell.runtime.cluster import Cluster, Malformed, Selection, merge_patch
from swell.runtime.errors import ClusterError, OutcomeUnknownError

T = TypeVar("T")
EVENTUALLY_S = 30.0
POLL_S = 0.02
GROUP = "contract.example.com"

CONFIG = CONFIG_MAPS.untyped()
POD = PODS.untyped()
NODE = NODES.untyped()
SERVICE = SERVICES.untyped()
LEASE = LEASES.untyped()
NAMESPACE = NAMESPACES.untyped()
EVENT = EVENTS.untyped()
REPLICA_SET = REPLICA_SETS.untyped()
JOB = JOBS.untyped()
BUDGET = POD_DISRUPTION_BUDGETS.untyped()
PRIORITY_CLASS = PRIORITY_CLASSES.untyped()
WIDGET: Resource[Body] = Resource(GROUP, "v1", "Widget", "widgets", dict)
PLAIN_WIDGET: Resource[Body] = Resource(GROUP, "v1", "Plain", "plains", dict)


@dataclass(frozen=True)
class World:
    """A cluster, a namespace nobody else uses, and a word for names outside of it."""

    cluster: Cluster
    ns: str

    def key(self, name: str) -> Key:
        return Key(self.ns, name)

    def selection(self, labels: str = "", fields: str = "") -> Selection:
        return Selection(self.ns, labels, fields)

    def body(self, resource: Resource[Any], name: str, **more: object) -> Body:
        """An object of ours; `metadata` given is added to its name and namespace."""
        meta: Body = {"name": name} if name else {}
        if resource.namespaced:
            meta["namespace"] = self.ns
        given = more.pop("metadata", {})
        assert isinstance(given, dict)
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return {**kind, "metadata": {**meta, **given}, **more}

    async def make(self, resource: Resource[Body], name: str, **more: object) -> Body:
        return await self.cluster.create(resource, self.body(resource, name, **more))

    async def make_pod(self, name: str, *, node: str = "", **more: object) -> Body:
        """A pod that nobody schedules; with a node, bound to it.

        Kubernetes deletes pods of nodes that do not exist, at once where it has known that of the
        node for 40 s: so a node has the name of the world, which lives for less.
        """
        pod = await self.cluster.create(POD, self.body(POD, name, **(a_pod() | more)))
        if node:
            await self.bind(name, node)
            pod = await self.get(POD, name)
        return pod

    async def bind(self, name: str, node: str, **meta: object) -> Body:
        target = {"kind": "Node", "name": node}
        binding = self.body(POD, name, target=target, metadata=meta)
        return await self.cluster.create(PODS.sub("binding", dict), binding | BINDING)

    async def get(self, resource: Resource[Body], name: str) -> Body:
        namespace = self.ns if resource.namespaced else ""
        return await self.cluster.get(resource, Key(namespace, name))

    async def merge(self, resource: Resource[Body], name: str, body: Body) -> Body:
        namespace = self.ns if resource.namespaced else ""
        return await self.cluster.patch(resource, Key(namespace, name), merge_patch(body))

    async def names(
        self, resource: Resource[Body], labels: str = "", fields: str = ""
    ) -> list[str]:
        listed = await self.cluster.list(resource, self.selection(labels, fields))
        return [item["metadata"]["name"] for item in listed.items]

    async def version(self, resource: Resource[Body] = CONFIG) -> str:
        return (await self.cluster.list(resource, self.selection())).resource_version

    async def events(
        self, resource: Resource[Body], since: str, n: int, labels: str = "", fields: str = ""
    ) -> list[tuple[str, Body]]:
        """The next n changes after a version; bookmarks do not count."""
        found: list[tuple[str, Body]] = []
        chosen = self.selection(labels, fields)
        watching = self.cluster.watch(resource, chosen, resource_version=since, timeout_s=60)
        async with asyncio.timeout(EVENTUALLY_S), watching as events:
            async for event in events:
                if event.object is not None:
                    assert not isinstance(event.object, Malformed)
                    found.append((event.type.value, event.object))
                if len(found) == n:
                    return found
        raise AssertionError(f"the watch ended after {found}")


BINDING = {"apiVersion": "v1", "kind": "Binding"}


def a_pod(**spec: object) -> Body:
    """The spec of the smallest pod there is."""
    container = {"name": "main", "image": "images.example/app:1"}
    return {"spec": {"schedulerName": "nobody", "containers": [container], **spec}}


async def refused(error: type[ClusterError], doing: Awaitable[object]) -> Status:
    """The Status of a refusal of that type; anything else fails the behaviour."""
    try:
        done = await doing
    except error as refusal:
        return refusal.status
    raise AssertionError(f"expected {error.__name__}, got {done}")


async def rejected(doing: Awaitable[object]) -> None:
    """A refusal of any kind: here a real server says 500 where another code would be better."""
    try:
        done = await doing
    except (ClusterError, OutcomeUnknownError):
        return
    raise AssertionError(f"expected a refusal, got {done}")


async def eventually(check: Callable[[], Awaitable[T | None]]) -> T:
    """What a check gives once it gives something: controllers take their time."""
    async with asyncio.timeout(EVENTUALLY_S):
        while True:
            found = await check()
            if found:
                return found
            await asyncio.sleep(POLL_S)


async def gone(world: World, resource: Resource[Body], name: str) -> None:
    """Wait until an object is no more."""

    async def check() -> bool:
        return name not in await world.names(resource)

    await eventually(check)


def causes(status: Status) -> list[tuple[str, str]]:
    """Field and reason of every cause, sorted.

    A real server adds a cause without a field where it did not come to check all rules.
    """
    found = status.details.causes if status.details else ()
    return sorted((cause.field, cause.reason) for cause in found if cause.field != "<nil>")


Act = Callable[[World], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Behaviour:
    """One rule of the API, shown by an example."""

    subject: str
    act: Act

    def __str__(self) -> str:
        return f"{self.subject}-{self.act.__name__}"


BEHAVIOURS: list[Behaviour] = []


def behaviour(act: Act) -> Act:
    """Register an example under the name of its file."""
    BEHAVIOURS.append(Behaviour(act.__module__.rpartition(".")[2], act))
    return act
