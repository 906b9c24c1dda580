"""One namespace of a cluster whose own controllers run: embedded, or a real control plane.

Tests act as a user and as the kubelet that is not there, and wait for what controllers make of it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from swell.api.kinds import JOBS, NAMESPACES, PODS, REPLICA_SETS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion, Patch, PatchKind, Selection, merge_patch
from swell.runtime.errors import NotFoundError
from swell.runtime.manager import Manager
from tests.testbed.control_plane import ControlPlane

WAIT_S_MAX = 30.0
POLL_S = 0.03
LONG_AGO = "2024-01-01T00:00:00Z"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
CONTAINER = {"name": "main", "image": "images.example/app:1"}
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class World:
    """A cluster and a namespace of one's own in it."""

    cluster: Cluster
    namespace: str

    # -- a user ------------------------------------------------------------------------------

    async def create(self, resource: Resource[object], name: str, **parts: object) -> Body:
        metadata = {"name": name, **parts.pop("metadata", {})}  # type: ignore[dict-item]
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **parts}
        return await self.cluster.create(resource.untyped(), {**body, "metadata": metadata})

    async def replica_set(self, name: str, replicas: int, **spec: object) -> Body:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": pod_spec()}
        own = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        return await self.create(REPLICA_SETS, name, spec={**own, **spec})

    async def job(self, name: str, *, restart: str = "Never", **spec: object) -> Body:
        template = {"spec": {**pod_spec(), "restartPolicy": restart}}
        return await self.create(JOBS, name, spec={"template": template, **spec})

    async def pod(self, name: str, **metadata: object) -> Body:
        return await self.create(PODS, name, metadata=metadata, spec=pod_spec())

    async def get(self, resource: Resource[object], name: str) -> Body:
        return await self.cluster.get(resource.untyped(), self.key(name))

    async def change(self, resource: Resource[object], name: str, body: Body) -> Body:
        return await self.cluster.patch(resource.untyped(), self.key(name), merge_patch(body))

    async def delete(
        self,
        resource: Resource[object],
        name: str,
        *,
        propagation: str | None = None,
        grace_s: int | None = None,
    ) -> None:
        deletion = Deletion(propagation=propagation, grace_s=grace_s)
        await self.cluster.delete(resource.untyped(), self.key(name), deletion)

    async def pods(self, labels: str = "") -> list[Body]:
        selection = Selection(self.namespace, labels=labels)
        return list((await self.cluster.list(PODS.untyped(), selection)).items)

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    # -- a kubelet ---------------------------------------------------------------------------

    async def report(self, pod: Body, status: Body) -> None:
        key = self.key(pod["metadata"]["name"])
        patch = Patch(PatchKind.STRATEGIC, {"status": status})
        await self.cluster.patch(PODS.status.untyped(), key, patch)

    async def make_ready(self, pod: Body, since: str = LONG_AGO) -> None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        await self.report(pod, {"phase": "Running", "conditions": [ready]})

    async def succeed(self, pod: Body) -> None:
        await self._end(pod, "Succeeded", 0)

    async def fail(self, pod: Body, exit_code: int = 1, condition: str = "") -> None:
        """Let a pod end long ago, so that no back-off waits for it."""
        await self._end(pod, "Failed", exit_code, condition)

    async def _end(self, pod: Body, phase: str, exit_code: int, condition: str = "") -> None:
        ended = {"exitCode": exit_code, "finishedAt": LONG_AGO, "startedAt": LONG_AGO}
        container = {
            "name": "main",
            "image": CONTAINER["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        status: Body = {"phase": phase, "containerStatuses": [container]}
        if condition:
            status["conditions"] = [{"type": condition, "status": "True"}]
        await self.report(pod, status)

    async def bind(self, pod: Body, node: str) -> None:
        metadata = {"name": pod["metadata"]["name"], "namespace": self.namespace}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        await self.cluster.create(PODS.sub("binding", dict), {**binding, "target": target})

    # -- waiting -----------------------------------------------------------------------------

    async def until(
        self, read: Callable[[], Awaitable[Body]], holds: Callable[[Body], object]
    ) -> Body:
        """Wait until a condition holds; returns the object read then."""
        found: Body = {}
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while not holds(found := await read()):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not in {WAIT_S_MAX:.0f} s; last seen: {found}") from None
        return found

    async def until_status(
        self, resource: Resource[object], name: str, holds: Callable[[Body], object]
    ) -> Body:
        """The status when it held."""

        async def read() -> Body:
            status: Body = (await self.get(resource, name)).get("status") or {}
            return status

        return await self.until(read, holds)

    async def until_pods(self, count: int, labels: str = "") -> list[Body]:
        """The pods that are neither finished nor deleted, as soon as there are so many."""

        async def read() -> Body:
            return {"items": [pod for pod in await self.pods(labels) if is_active(pod)]}

        found = await self.until(read, lambda found: len(found["items"]) == count)
        items: list[Body] = found["items"]
        return sorted(items, key=index_of)

    async def until_gone(self, resource: Resource[object], name: str) -> None:
        async def read() -> Body:
            try:
                return await self.get(resource, name)
            except NotFoundError:
                return {}

        await self.until(read, lambda found: not found)

    async def stays(self, read: Callable[[], Awaitable[object]], for_s: float = 2.5) -> None:
        """Check that an object stays as it is for longer than controllers take to act."""
        before = await read()
        await asyncio.sleep(for_s)

        assert await read() == before


def pod_spec() -> Body:
    return {"schedulerName": "nobody", "containers": [dict(CONTAINER)]}


def is_active(pod: Body) -> bool:
    finished = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return not finished and "deletionTimestamp" not in pod["metadata"]


def index_of(pod: Body) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, -1))


def condition_of(status: Body, type_: str) -> Body:
    conditions = status.get("conditions") or []
    return next((dict(c) for c in conditions if c["type"] == type_), {})


def has(status: Body, type_: str) -> bool:
    return bool(condition_of(status, type_).get("status") == "True")


Opened = Callable[[], AbstractAsyncContextManager[Cluster]]


@asynccontextmanager
async def embedded() -> AsyncIterator[Cluster]:
    """An embedded cluster in this process, with its controllers."""
    clock, rng = SystemClock(), random.Random(7)
    api = new_api_server(Storage(clock.now), clock, rng)
    manager = Manager(clock=clock)
    add_services(manager, api, rng)
    running = asyncio.create_task(manager.run())
    try:
        yield InProcessCluster(api, "user")
    finally:
        manager.stop()
        await running


def real(plane: ControlPlane) -> Opened:
    """A real control plane with the controllers the embedded one has too."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Cluster]:
        access = read_kubeconfig([plane.kubeconfig])
        async with connect(access, clock=SystemClock(), rng=random.Random(7)) as cluster:
            yield cluster

    return opened


def play(opened: Opened, scenario: Callable[[World], Awaitable[None]]) -> None:
    """Run a scenario in a new namespace, and leave the namespace to be deleted."""

    async def run() -> None:
        async with opened() as cluster:
            name = f"play-{next(_numbers)}"
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await cluster.create(NAMESPACES, body)
            await scenario(World(cluster, name))

    asyncio.run(run())


async def finished(world: World, name: str, type_: str) -> Body:
    """The status of a Job that has come to this end."""
    return await world.until_status(JOBS, name, lambda status: has(status, type_))


def reasons(status: Body) -> dict[str, str]:
    return {c["type"]: c["reason"] for c in status.get("conditions") or () if c["status"] == "True"}
