"""A real control plane with native gangs, a scheduler of ours, hollow nodes, and what users do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random

from swell.api.kinds import NAMESPACES, NATIVE_GROUPS, NODES, PODS, PRIORITY_CLASSES
from swell.api.meta import Body, Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import add_hollow_agent, node_names
from swell.node.nodes import NodeShape
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import AlreadyExistsError, NotFoundError
from swell.runtime.manager import Manager
from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from tests.testbed.control_plane import ControlPlane

WITHIN_S = 60.0
QUIET_S = 3.0  # in which nothing may happen that must not
OURS = "swell"
KUBES = "default-scheduler"
GRACE_S = 1
HIGH = "e2e-high"


@dataclass(frozen=True, slots=True)
class World:
    """One namespace with nodes of its own; pods of 1 core go to them alone."""

    cluster: Cluster
    namespace: str

    async def group(self, name: str, least: int, **spec: object) -> None:
        policy: Body = {"gang": {"minCount": least}} if least else {"basic": {}}
        body: Body = {
            "apiVersion": NATIVE_GROUPS.api_version,
            "kind": NATIVE_GROUPS.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"schedulingPolicy": policy, **spec},
        }
        await self.cluster.create(NATIVE_GROUPS, body)

    async def pods(
        self, group: str, n: int, *, scheduler: str = OURS, first: int = 0, **spec: object
    ) -> None:
        for index in range(first, first + n):
            await self.cluster.create(PODS, self.pod(f"{group}-{index}", group, scheduler, **spec))

    def pod(self, name: str, group: str = "", scheduler: str = OURS, **spec: object) -> Body:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {**self.pod_spec(group, scheduler), **spec},
        }

    def pod_spec(self, group: str = "", scheduler: str = OURS) -> Body:
        amounts = {"cpu": "1"}
        container: Body = {"name": "main", "image": "local", "resources": {"requests": amounts}}
        spec: Body = {
            "schedulerName": scheduler,
            "nodeSelector": {"for": self.namespace},
            "terminationGracePeriodSeconds": GRACE_S,
            "containers": [container],
        }
        return {**spec, "schedulingGroup": {"podGroupName": group}} if group else spec

    async def has_nodes(self, n: int) -> bool:
        """Whether so many nodes take pods."""
        listed = (await self.cluster.list(NODES, Selection(labels=f"for={self.namespace}"))).items
        return len([node for node in listed if not node.spec.taints]) == n

    async def placed(self, prefix: str = "") -> dict[str, str]:
        """Returns the nodes of the pods that have one and are not leaving."""
        listed = (await self.cluster.list(PODS, Selection(self.namespace))).items
        return {
            pod.metadata.name: pod.spec.node_name
            for pod in listed
            if pod.spec.node_name
            and pod.metadata.name.startswith(prefix)
            and pod.metadata.deletion_timestamp is None
        }

    async def read(self, name: str) -> Pod:
        return await self.cluster.get(PODS, Key(self.namespace, name))

    async def remove(self, name: str) -> None:
        await self.cluster.delete(PODS, Key(self.namespace, name))

    async def read_group(self, name: str) -> NativeGroup:
        return await self.cluster.get(NATIVE_GROUPS, Key(self.namespace, name))

    async def condition(self, name: str, kind: str = "PodGroupScheduled") -> tuple[str, str, str]:
        """Returns status, reason and message of a condition of a group; empty without one."""
        found = (await self.read_group(name)).status.conditions
        texts = ((c.status, c.reason, c.message) for c in found if c.type == kind)
        return next(texts, ("", "", ""))

    async def until_placed(self, prefix: str, n: int) -> dict[str, str]:
        async def holds() -> bool:
            return len(await self.placed(prefix)) == n

        await until(holds)
        return await self.placed(prefix)

    async def until_condition(self, name: str, status: str, text: str = "") -> str:
        async def holds() -> bool:
            found = await self.condition(name)
            return found[0] == status and text in found[2]

        await until(holds)
        return (await self.condition(name))[2]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@asynccontextmanager
async def native_world(
    plane: ControlPlane,
    namespace: str,
    nodes: Mapping[str, Mapping[str, str]],
    cpu: int = 4,
    gang_api: str = "",
    n_pods: int = 20,
    config: Config = DEFAULT,
    amounts: Mapping[str, str] | None = None,
) -> AsyncIterator[World]:
    """Play nodes with these labels, and run a scheduler of ours, in a namespace of its own.

    With a `gang_api` an operator runs as well.
    """
    clock = SystemClock()
    async with connect(read_kubeconfig([plane.kubeconfig]), clock, Random(1)) as cluster:
        await install_crds(cluster, clock)
        frame = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await cluster.create(NAMESPACES, frame)
        with suppress(AlreadyExistsError):
            high = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
            await cluster.create(
                PRIORITY_CLASSES, {**high, "metadata": {"name": HIGH}, "value": 1000}
            )
        hollow, manager = Manager(clock=clock), Manager(clock=clock)
        for name, labels in nodes.items():
            shape = NodeShape(
                {"cpu": str(cpu), "memory": "16Gi", "pods": str(n_pods), **(amounts or {})},
                boot_id=name,
                labels={"for": namespace, **labels},
            )
            names = node_names(f"{namespace}-{name}", 1)
            add_hollow_agent(hollow, cluster, names, shape, clock=clock, random=Random(2))
        settings = SchedulerSettings(scheduler_names=(OURS,), config=config)
        scheduler = Scheduler(cluster, settings, clock=clock, random=Random(3))
        manager.add("scheduler", scheduler.run)
        if gang_api:
            jobs = AITrainingJobSettings(namespace=namespace, gang_api=gang_api)
            ours = ai_training_job_kind(jobs)
            manager.add("operator", lambda: operate(ours, cluster, clock=clock, random=Random(4)))
        world = World(cluster, namespace)
        running = [asyncio.create_task(hollow.run())]
        # Before anybody decides: what fits must not depend on which node comes first.
        await until(lambda: world.has_nodes(len(nodes)))
        running.append(asyncio.create_task(manager.run()))
        try:
            yield world
        finally:
            hollow.stop()
            manager.stop()
            await asyncio.gather(*running)
            with suppress(NotFoundError):
                await cluster.delete(NAMESPACES, Key("", namespace))
    await asyncio.sleep(0.25)  # for connections cut off in the middle
