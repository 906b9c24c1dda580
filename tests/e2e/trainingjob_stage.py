"""A namespace with the TrainingJob operator at work in it, and a hollow node of its own.

The workloads are run by the cluster's own controllers: the embedded ones, or those of a real
controller manager. Pods start and stop by themselves here; how a trainer ends, a test says.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from swell.api.core import Taint
from swell.api.crds import crd
from swell.api.kinds import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.api.schemas.definitions import DEFINITIONS
from swell.node.assembly import HOLLOW_CAPACITY, add_hollow_agent
from swell.node.hollow import PREFIX
from swell.node.nodes import HOSTNAME_LABEL, SIMULATE_LOSS, NodeShape
from swell.operator.framework.program import operate
from swell.operator.trainingjob.kind import training_job_kind
from swell.operator.trainingjob.labels import JOB_UID
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion, Patch, PatchKind, Selection, merge_patch
from swell.runtime.errors import AlreadyExistsError, NotFoundError
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from tests.contract.controller_world import LONG_AGO, Opened, World, index_of, is_active, play
from tests.e2e.operator.jobs import GRACE_S, OWN_NODES

POLL_S = 0.1
CLOSE_S = 0.25
READY_S_MAX = 30.0
RESOURCES: Body = {"requests": {"cpu": "200m", "memory": "200Mi"}}


def a_training_job(name: str, **spec: object) -> Body:
    """A job of two trainers and a pserver, unless the spec says otherwise."""
    whole: Body = {
        "image": "images.example/paddle:1",
        "trainer": {"entrypoint": "python train.py", "min-instance": 2, "resources": RESOURCES},
        "pserver": {"min-instance": 1},
        **spec,
    }
    meta: Body = {"name": name}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": meta} | {
        "spec": whole
    }


def elastic(least: int, most: int, **spec: object) -> Body:
    """A fault tolerant trainer between two sizes."""
    trainer = {"entrypoint": "python train.py", "min-instance": least, "max-instance": most}
    return {"fault_tolerant": True, "trainer": {**trainer, "resources": RESOURCES}, **spec}


@dataclass
class Stage:
    """See the module's docstring."""

    world: World
    settings: TrainingJobSettings
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    # -- the operator ------------------------------------------------------------------------

    async def start_operator(self) -> None:
        work = operate(
            training_job_kind(self.settings),
            self.world.cluster,
            clock=SystemClock(),
            random=random.Random(3),
        )
        self._running.append(asyncio.create_task(work))

    async def stop_operator(self) -> None:
        """At once, wherever it is."""
        while self._running:
            task = self._running.pop()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def restart_operator(self) -> None:
        await self.stop_operator()
        await self.start_operator()

    # -- a user ------------------------------------------------------------------------------

    async def submit(self, name: str, **spec: object) -> Body:
        return await self.submit_body(a_training_job(name, **spec))

    async def submit_body(self, body: Body) -> Body:
        metadata = {**body["metadata"], "namespace": self.world.namespace}
        spec = _placed(body["spec"], self.node)
        return await self.world.cluster.create(
            self.served(body), {**body, "metadata": metadata, "spec": spec}
        )

    def served(self, body: Body) -> Resource[Body]:
        """The version that a manifest is of."""
        version = body["apiVersion"].partition("/")[2]
        return replace(TRAINING_JOBS.untyped(), version=version)

    async def set_target(self, name: str, target: int) -> None:
        """As the autoscaler does."""
        patch = merge_patch({"status": {"trainer_target": target}})
        await self.world.cluster.patch(TRAINING_JOBS.status, self.world.key(name), patch)

    async def status(self, name: str) -> Body:
        found: Body = (await self.world.get(TRAINING_JOBS, name)).get("status") or {}
        return found

    async def until_phase(self, name: str, *phases: str) -> Body:
        return await self.until_status(name, lambda status: status.get("phase", "") in phases)

    async def until_status(self, name: str, holds: Callable[[Body], object]) -> Body:
        return await self.world.until_status(TRAINING_JOBS, name, holds)

    async def until_running(self, name: str) -> Body:
        """Running, with the size that was asked for."""
        return await self.until_phase(name, "Running")

    async def owned(self) -> dict[str, list[str]]:
        """Names of what carries a job's label, by kind."""
        found: dict[str, list[str]] = {}
        kinds: list[Resource[object]] = [REPLICA_SETS, JOBS, POD_GROUPS, PODS]
        for resource in kinds:
            selection = Selection(self.world.namespace, labels=JOB_UID)
            listed = await self.world.cluster.list(resource.untyped(), selection)
            if listed.items:
                names = sorted(item["metadata"]["name"] for item in listed.items)
                found[resource.kind] = names
        return found

    async def until_owned(self, holds: Callable[[Body], object]) -> Body:
        async def read() -> Body:
            return dict(await self.owned())

        return await self.world.until(read, holds)

    async def events(self) -> list[Body]:
        listed = await self.world.cluster.list(EVENTS.untyped(), Selection(self.world.namespace))
        return [e for e in listed.items if e["involvedObject"]["kind"] == "TrainingJob"]

    async def until_reported(self, reason: str) -> Body:
        """The event with this reason."""

        async def read() -> Body:
            return {"items": [e for e in await self.events() if e["reason"] == reason]}

        found = await self.world.until(read, lambda found: found["items"])
        reported: Body = found["items"][0]
        return reported

    # -- the node ----------------------------------------------------------------------------

    @property
    def node(self) -> str:
        return f"{self.world.namespace}-node"

    async def cordon(self) -> None:
        """No pod gets a node any more."""
        await self.change_node({"spec": {"unschedulable": True}})

    async def uncordon(self) -> None:
        await self.change_node({"spec": {"unschedulable": None}})

    async def lose_node(self) -> None:
        """The node falls silent, and what a node lifecycle controller says of it follows."""
        await self.change_node({"metadata": {"annotations": {SIMULATE_LOSS: "true"}}})
        silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": LONG_AGO}
        patch = Patch(PatchKind.STRATEGIC, {"status": {"conditions": [silent]}})
        await self.world.cluster.patch(NODES.status, Key("", self.node), patch)

    async def change_node(self, change: Body) -> None:
        await self.world.cluster.patch(NODES, Key("", self.node), merge_patch(change))

    async def end_trainer(
        self, name: str, index: int, exit_code: int = 0, *, disrupted: bool = False
    ) -> None:
        """The running trainer of an index ends so."""
        pod = await self.trainer(name, index)
        if disrupted:
            condition = {"type": "DisruptionTarget", "status": "True"}
            await self.world.report(pod, {"phase": "Failed", "conditions": [condition]})
            return
        own = pod["metadata"]
        await self.end_pod(pod, exit_code)

        async def read() -> Body:
            active = [one for one in await self.world.pods(f"paddle-job={name}") if is_active(one)]
            return {"uids": [one["metadata"]["uid"] for one in active]}

        await self.world.until(read, lambda found: own["uid"] not in found["uids"])

    async def end_pod(self, pod: Body, exit_code: int) -> None:
        """Its containers end, and do so again if they are started again."""
        said = {PREFIX + "duration": "0", PREFIX + "exit-code": str(exit_code)}
        change: Body = {"metadata": {"annotations": said}}
        await self.world.change(PODS, pod["metadata"]["name"], change)

    async def trainer(self, name: str, index: int) -> Body:
        """The trainer that runs with an index."""

        async def read() -> Body:
            found = [
                pod
                for pod in await self.world.pods(f"paddle-job={name}")
                if is_active(pod)
                and index_of(pod) == index
                and pod.get("status", {}).get("phase") == "Running"
            ]
            return found[0] if found else {}

        return await self.world.until(read, bool)


def stage_play(
    opened: Opened, scenario: Callable[[Stage], Awaitable[None]], **settings: object
) -> None:
    """Run a scenario in a namespace of its own, with an operator for that namespace alone."""

    async def on_stage(world: World) -> None:
        await _install(world.cluster)
        async with _staged(world, **settings) as stage:
            await scenario(stage)

    play(_lingering(opened), on_stage)


def _lingering(opened: Opened) -> Opened:
    """The same cluster; connections cut off in the middle get time to close."""

    @asynccontextmanager
    async def lingering() -> AsyncIterator[Cluster]:
        async with opened() as cluster:
            yield cluster
        await asyncio.sleep(CLOSE_S)

    return lingering


@asynccontextmanager
async def _staged(world: World, **settings: object) -> AsyncIterator[Stage]:
    chosen = TrainingJobSettings(namespace=world.namespace, **settings)  # type: ignore[arg-type]
    stage = Stage(world, chosen)
    cluster, clock, rng = world.cluster, SystemClock(), random.Random(5)
    manager = Manager(clock=clock)
    own = (Taint(key=OWN_NODES, effect="NoSchedule"),)
    shape = NodeShape(HOLLOW_CAPACITY, boot_id="own", taints=own)
    agent = add_hollow_agent(manager, cluster, (stage.node,), shape, clock=clock, random=rng)
    manager.add("scheduler", Scheduler(cluster, clock=clock, random=rng).run)
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(READY_S_MAX):
            while not agent.is_ready:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        await stage.start_operator()
        yield stage
    finally:
        await stage.stop_operator()
        manager.stop()
        await running
        with contextlib.suppress(NotFoundError):
            await cluster.delete(NODES, Key("", stage.node), Deletion())


async def _install(cluster: Cluster) -> None:
    """Have the kinds of ours, where they are not there yet."""
    for definition in DEFINITIONS:
        with contextlib.suppress(AlreadyExistsError):
            await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, crd(definition))
    for resource in (TRAINING_JOBS.untyped(), POD_GROUPS.untyped()):
        for _ in range(100):
            try:
                await cluster.list(resource, limit=1)
            except NotFoundError:
                await asyncio.sleep(POLL_S)
            else:
                break


def _placed(spec: Body, node: str) -> Body:
    """The same job, all of it on one node."""
    place = {
        "node_selector": {HOSTNAME_LABEL: node},
        "tolerations": [{"key": OWN_NODES, "operator": "Exists"}],
        "grace_period_seconds": GRACE_S,
    }
    roles = ("master", "pserver", "trainer")
    return {**spec, **{role: {**place, **spec.get(role, {})} for role in roles}}
