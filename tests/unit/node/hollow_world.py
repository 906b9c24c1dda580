"""An embedded cluster in virtual time with hollow nodes, for tests of whoever needs pods to run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from swell.api.core import Node
from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Commit, Storage
from swell.node.assembly import HOLLOW_CAPACITY, NodeAgent, add_hollow_agent, node_names
from swell.node.hollow import PREFIX
from swell.node.nodes import NodeShape
from swell.node.pods import BOUND_PODS, BoundPod
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import NotFoundError
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from swell.sim.loop import VirtualClock, run

NAMESPACE = "default"
AGENT = "node-agent"


@dataclass
class Scene:
    """What a test sees and does."""

    api: ApiServer
    user: InProcessCluster
    clock: VirtualClock
    random: Random
    n_nodes: int
    commits: list[Commit] = field(default_factory=list)
    agent: NodeAgent | None = None
    decodes: Callable[[Cluster], Cluster] = lambda cluster: cluster
    _manager: Manager | None = None
    _running: asyncio.Task[None] | None = None
    _n_boots: int = 0

    async def start_agent(self) -> None:
        self._n_boots += 1
        manager = Manager(clock=self.clock)
        shape = NodeShape(HOLLOW_CAPACITY, boot_id=f"boot-{self._n_boots}")
        names = node_names("hollow", self.n_nodes)
        cluster = self.decodes(InProcessCluster(self.api, AGENT))
        self.agent = add_hollow_agent(
            manager, cluster, names, shape, clock=self.clock, random=self.random
        )
        self._manager = manager
        self._running = asyncio.create_task(manager.run())
        await asyncio.sleep(3)

    async def stop_agent(self) -> None:
        assert self._manager
        assert self._running
        self._manager.stop()
        await self._running

    async def pod(self, name: str, spec: Body | None = None, **script: str) -> BoundPod:
        return await self.user.create(BOUND_PODS, pod_body(name, spec, **script))

    async def annotate(self, name: str, **script: str) -> None:
        patch = merge_patch({"metadata": {"annotations": hollow_annotations(script)}})
        await self.user.patch(PODS, Key(NAMESPACE, name), patch)

    async def get(self, name: str) -> BoundPod:
        return await self.user.get(BOUND_PODS, Key(NAMESPACE, name))

    async def exists(self, name: str) -> bool:
        try:
            await self.get(name)
        except NotFoundError:
            return False
        return True

    async def phase(self, name: str) -> str:
        return (await self.get(name)).status.phase.value

    async def node(self, name: str = "hollow-0") -> Node:
        return await self.user.get(NODES, Key("", name))

    def writes(self, actor: str = AGENT) -> list[Commit]:
        return [commit for commit in self.commits if commit.actor == actor]


def hollow_annotations(script: dict[str, str]) -> dict[str, str]:
    return {PREFIX + name.replace("_", "-"): value for name, value in script.items()}


def pod_body(name: str, spec: Body | None = None, **script: str) -> Body:
    containers = [{"name": "main", "image": "local"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": hollow_annotations(script),
        },
        "spec": {
            "schedulerName": "swell",
            "restartPolicy": "Never",
            "containers": containers,
            **(spec or {}),
        },
    }


def play(
    act: Callable[[Scene], Awaitable[None]],
    n_nodes: int = 1,
    decodes: Callable[[Cluster], Cluster] = lambda cluster: cluster,
) -> None:
    """Act in a cluster with its controllers, its scheduler and hollow nodes."""

    async def main() -> None:
        clock, rng = VirtualClock(), Random(5)
        api = new_api_server(Storage(clock.now), clock, rng)
        manager = Manager(clock=clock)
        add_services(manager, api, rng)
        scheduler = Scheduler(InProcessCluster(api, "scheduler"), clock=clock, random=rng)
        manager.add("scheduler", scheduler.run)
        running = asyncio.create_task(manager.run())
        scene = Scene(api, InProcessCluster(api, "user"), clock, rng, n_nodes)
        scene.decodes = decodes
        api.storage.on_commit.append(scene.commits.append)
        await scene.start_agent()
        await act(scene)
        await scene.stop_agent()
        manager.stop()
        await running

    run(main())
