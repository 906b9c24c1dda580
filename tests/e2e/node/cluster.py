"""An embedded cluster with a node agent of real processes, all in the test's own event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

from swell.api.core import PRIVATE_PORTS
from swell.api.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICES
from swell.api.meta import Body, Key
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.node.assembly import NodeAgent, ProcessSettings, add_leaving, add_process_agent
from swell.node.nodes import NodeShape
from swell.node.pods import BOUND_PODS, BoundPod, ReportedContainer
from swell.node.process.container import ContainerSlot
from swell.node.process.isolation import isolated_agent
from swell.node.process.launcher import find_namespace
from swell.node.process.runtime import ProcessRuntime
from swell.node.process.setup.users import AgentUser
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Deletion
from swell.runtime.errors import NotFoundError
from swell.runtime.manager import Manager

NAMESPACE = "default"
NODE = "here-0"
WITHIN_S = 30.0
PROCESSES_MAX = 1000
CAPACITY = {"cpu": "16", "memory": "16Gi", "pods": "500", "nvidia.com/gpu": "2"}

_found: list[str] = []


def namespace_kind() -> str:
    """What this machine allows, tried once."""
    if not _found:
        _found.append(find_namespace())
    return _found[0]


@dataclass
class Site:
    """The cluster, and what a test does with it."""

    home: Path
    cluster: InProcessCluster
    clock: SystemClock
    namespace: str
    user: AgentUser = field(default_factory=lambda: AgentUser(os.geteuid(), os.getegid()))
    agent: NodeAgent | None = None
    runtime: ProcessRuntime | None = None
    _manager: Manager | None = None
    _running: asyncio.Task[None] | None = None
    _n_boots: int = 0
    _made: list[Key] = field(default_factory=list)

    async def start_agent(self, *, leaving: bool = False) -> None:
        self._n_boots += 1
        manager = Manager(clock=self.clock, drain_s=20)
        shape = NodeShape(
            CAPACITY, boot_id=f"boot-{self._n_boots}", annotations={PRIVATE_PORTS: "true"}
        )
        settings = ProcessSettings(
            self.home,
            str(self.home),
            self.namespace,
            n_gpus=2,
            processes_max=PROCESSES_MAX,
            agent=self.user,
        )
        self.agent, self.runtime = add_process_agent(
            manager, self.cluster, [NODE], shape, settings, clock=self.clock, random=Random(1)
        )
        if leaving:
            add_leaving(manager, self.agent, WITHIN_S)
        self._manager = manager
        self._running = asyncio.create_task(manager.run())
        await self.until(lambda: self.agent is not None and self.agent.is_ready)

    async def stop_agent(self) -> None:
        """End the loops of the agent; nothing that it started is ended with it."""
        assert self._manager
        assert self._running
        self._manager.stop()
        await self._running

    async def until(self, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110 (processes bring it about)
                await asyncio.sleep(0.01)

    async def pod(self, name: str, *command: str, **spec: object) -> BoundPod:
        return await self.cluster.create(BOUND_PODS, pod_body(name, *command, **spec))

    async def get(self, name: str) -> BoundPod:
        return await self.cluster.get(BOUND_PODS, Key(NAMESPACE, name))

    async def pod_that(
        self, name: str, holds: Callable[[BoundPod], bool], within_s: float = WITHIN_S
    ) -> BoundPod:
        pod = await self.get(name)
        try:
            async with asyncio.timeout(within_s):
                while not holds(pod):
                    await asyncio.sleep(0.01)
                    pod = await self.get(name)
        except TimeoutError:
            raise AssertionError(f"still {pod.status}; {self.log(name)}") from None
        return pod

    async def running(self, name: str) -> BoundPod:
        return await self.pod_that(name, lambda pod: pod.status.phase.value == "Running")

    async def ended(self, name: str) -> BoundPod:
        return await self.pod_that(name, lambda pod: pod.is_final)

    async def delete(self, name: str, grace_s: int | None = None) -> None:
        await self.cluster.delete(PODS, Key(NAMESPACE, name), Deletion(grace_s=grace_s))

    async def gone(self, name: str, within_s: float = WITHIN_S) -> None:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await self.get(name)
                except NotFoundError:
                    break
                await asyncio.sleep(0.01)
        assert self.agent
        assert self.runtime
        await self.until(lambda: not self.live_slots())

    def live_slots(self) -> list[ContainerSlot]:
        """The containers that have a process."""
        assert self.runtime
        return [slot for slot in self.runtime._slots() if slot.is_live]

    async def config_map(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name), "data": data}
        await self.cluster.create(CONFIG_MAPS, body)

    async def secret(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta(name), "stringData": data}
        await self.cluster.create(SECRETS, body)

    async def service(self, name: str, **selector: str) -> None:
        spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": spec}
        await self.cluster.create(SERVICES, body)

    def log(self, name: str, container: str = "main") -> str:
        found = list((self.home / "logs" / NAMESPACE).glob(f"**/{name}.*/{container}.log"))
        return found[0].read_text() if found else ""


def meta(name: str) -> Body:
    return {"name": name, "namespace": NAMESPACE}


def pod_body(name: str, *command: str, **spec: object) -> Body:
    container: Body = {"name": "main", "image": "local", "command": list(command)}
    container |= cast("Body", spec.pop("container", {}))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta(name), "labels": {"app": name}},
        "spec": {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            **spec,
        },
    }


def main_of(pod: BoundPod) -> ReportedContainer:
    return pod.status.container_statuses[0]


def play(
    home: Path,
    act: Callable[[Site], Awaitable[None]],
    namespace: str | None = None,
    *,
    isolate: bool = False,
) -> None:
    """Act on a cluster of one node; afterwards no process of it is left."""

    async def go() -> None:
        clock, rng = SystemClock(), Random(5)
        api = new_api_server(Storage(clock.now), clock, rng)
        manager = Manager(clock=clock)
        add_services(manager, api, rng)
        running = asyncio.create_task(manager.run())
        kind = namespace_kind() if namespace is None else namespace
        site = Site(home, InProcessCluster(api, "test"), clock, kind)
        if isolate:
            site.user = isolated_agent(home, kind)
        await site.start_agent()
        try:
            await act(site)
        finally:
            await site.stop_agent()
            assert site.runtime
            await site.runtime.keep_only(())
            await site.runtime.close()
            manager.stop()
            await running
        assert not site.live_slots()

    asyncio.run(go())
