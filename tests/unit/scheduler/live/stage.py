"""A stage for the live scheduler: an API server in virtual time, a user, and lives of a scheduler.

`Line` (of the runtime's tests) lies between scheduler and server, so that calls can be made to
fail; kubelets there are none, pods run when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from swell.api.kinds import (
    EVENTS,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
)
from swell.api.meta import Body, Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.api.times import format_time
from swell.api.topology import HyperNode
from swell.cluster.embedded.client import InProcessCluster
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import NotFoundError
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer
from tests.unit.runtime.world import Line

NAMESPACE = "ns"
DEFAULTS = SchedulerSettings()


class Stage:
    def __init__(
        self, settings: SchedulerSettings = DEFAULTS, gates: frozenset[str] = frozenset()
    ) -> None:
        self.clock = VirtualClock()
        self.settings = settings
        self.server = SimulatedServer(self.clock, Chance(1), (), gates)
        self.user = self.server.connect("user")
        self._lives: list[asyncio.Task[None]] = []
        self.lines: list[Line] = []

    def start(self) -> Scheduler:
        """Another life of the scheduler."""
        cluster = self.server.connect("scheduler")
        assert isinstance(cluster, InProcessCluster)
        line = Line(cluster)
        self.lines.append(line)
        scheduler = Scheduler(line, self.settings, clock=self.clock, random=Random(1))
        self.adopt(scheduler)
        return scheduler

    def adopt(self, scheduler: Scheduler) -> None:
        """Have a scheduler run that was put together elsewhere."""
        self._lives.append(asyncio.create_task(scheduler.run()))

    async def kill(self) -> None:
        """The scheduler is gone at once."""
        life = self._lives.pop()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    def is_alive(self) -> bool:
        """Whether the latest life of the scheduler goes on."""
        return not self._lives[-1].done()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    # --- objects

    async def nodes(self, n: int, cpu: str = "4", **spec: object) -> None:
        for number in range(n):
            await self.node(f"node-{number}", cpu, **spec)

    async def node(self, name: str, cpu: str = "4", **spec: object) -> None:
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        status = {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        body = {**_head("v1", "Node", name, ""), "spec": spec}
        await self.user.create(NODES.untyped(), body)
        await self.change_node(name, taints=spec.get("taints"))  # the server adds one of its own
        await self.user.patch(
            NODES.untyped().status, Key("", name), merge_patch({"status": status})
        )

    async def change_node(self, name: str, **spec: object) -> None:
        await self.user.patch(NODES.untyped(), Key("", name), merge_patch({"spec": spec}))

    async def group(self, name: str, minimum: int, **spec: object) -> None:
        body = _head("scheduling.volcano.sh/v1beta1", "PodGroup", name, NAMESPACE)
        await self.user.create(
            POD_GROUPS.untyped(), {**body, "spec": {"minMember": minimum, **spec}}
        )

    async def queue(self, name: str, **spec: object) -> None:
        body = _head("scheduling.volcano.sh/v1beta1", "Queue", name, "")
        await self.user.create(QUEUES.untyped(), {**body, "spec": spec})

    async def priority(self, name: str, value: int) -> None:
        body = {**_head("scheduling.k8s.io/v1", "PriorityClass", name, ""), "value": value}
        await self.user.create(PRIORITY_CLASSES.untyped(), body)

    async def hyper_node(self, name: str, tier: int, *members: dict[str, object]) -> None:
        body = _head("topology.volcano.sh/v1alpha1", "HyperNode", name, "")
        spec = {"tier": tier, "members": list(members)}
        await self.user.create(HYPER_NODES.untyped(), {**body, "spec": spec})

    async def read_hyper_node(self, name: str) -> HyperNode:
        return await self.user.get(HYPER_NODES, Key("", name))

    async def label_node(self, name: str, **labels: str | None) -> None:
        change = merge_patch({"metadata": {"labels": labels}})
        await self.user.patch(NODES.untyped(), Key("", name), change)

    async def pod(self, name: str, group: str = "", cpu: str = "1", **spec: object) -> None:
        body = _head("v1", "Pod", name, NAMESPACE)
        if group:
            body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
        requests = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        container = {"name": "c", "image": "i", "resources": requests}
        whole = {"schedulerName": "swell", "containers": [container], **spec}
        await self.user.create(PODS.untyped(), {**body, "spec": whole})

    async def gang(self, name: str, size: int, minimum: int | None = None, **spec: object) -> None:
        """A group and its pods."""
        cpu = str(spec.pop("cpu", "1"))
        await self.group(name, size if minimum is None else minimum, **spec)
        for number in range(size):
            await self.pod(f"{name}-{number}", name, cpu)

    async def native_gang(
        self, name: str, size: int, minimum: int | None = None, **spec: object
    ) -> None:
        """A native group and its pods."""
        await self.native_group(name, size if minimum is None else minimum, **spec)
        await self.native_pods(name, size)

    async def native_group(self, name: str, minimum: int, **spec: object) -> None:
        body = _head(NATIVE_GROUPS.api_version, NATIVE_GROUPS.kind, name, NAMESPACE)
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        await self.user.create(NATIVE_GROUPS.untyped(), {**body, "spec": {**policy, **spec}})

    async def native_pods(self, name: str, size: int) -> None:
        await self.native_pods_at(name, *range(size))

    async def native_pods_at(self, name: str, *numbers: int) -> None:
        for number in numbers:
            await self.pod(f"{name}-{number}", schedulingGroup={"podGroupName": name})

    async def read_native(self, name: str) -> NativeGroup:
        return await self.user.get(NATIVE_GROUPS, Key(NAMESPACE, name))

    async def run_pods(self, *names: str) -> None:
        """What kubelets would do: bound pods run."""
        for pod in await self.pods():
            if pod.spec.node_name and (not names or pod.metadata.name in names):
                started = pod.status.start_time or format_time(self.clock.now())
                change = merge_patch({"status": {"phase": "Running", "startTime": started}})
                await self.user.patch(PODS.untyped().status, pod.metadata.key, change)

    async def remove(self, name: str) -> None:
        """What kubelets would do with a pod that has to go."""
        await self.user.delete(PODS, Key(NAMESPACE, name), Deletion(grace_s=0))

    # --- questions

    async def pods(self) -> tuple[Pod, ...]:
        return (await self.user.list(PODS)).items

    async def where(self) -> dict[str, str]:
        """Bound pods, and the node of each."""
        pods = await self.pods()
        return {p.metadata.name: p.spec.node_name for p in pods if p.spec.node_name}

    async def read_pod(self, name: str) -> Pod | None:
        try:
            return await self.user.get(PODS, Key(NAMESPACE, name))
        except NotFoundError:
            return None

    async def read_group(self, name: str) -> PodGroup:
        return await self.user.get(POD_GROUPS, Key(NAMESPACE, name))

    async def events(self) -> list[tuple[str, str, str]]:
        found = await self.user.list(EVENTS.untyped())
        return [(e["involvedObject"]["name"], e["reason"], e["message"]) for e in found.items]


def on_stage(
    play: Callable[[Stage], Awaitable[None]],
    settings: SchedulerSettings = DEFAULTS,
    gates: frozenset[str] = frozenset(),
) -> None:
    """Have a play played, in virtual time."""

    async def main() -> None:
        stage = Stage(settings, gates)
        await stage.user.create(NAMESPACES.untyped(), _head("v1", "Namespace", NAMESPACE, ""))
        await play(stage)

    run(main())


def _head(version: str, kind: str, name: str, namespace: str) -> Body:
    metadata: Body = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
