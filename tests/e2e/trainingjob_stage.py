"""A namespace with the TrainingJob operator at work in it, and a test that plays the nodes.

The workloads are run by the cluster's own controllers: the embedded ones, or those of a real
controller manager. Pods start and stop by themselves here; how a trainer ends, a test says.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from swell.api.crds import DEFINITIONS, crd
from swell.api.kinds import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    TRAINING_JOBS,
)
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.operator.trainingjob.labels import JOB_UID
from swell.operator.trainingjob.running import operate
from swell.operator.trainingjob.settings import Settings
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion, Selection, merge_patch
from swell.runtime.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError
from tests.contract.controller_world import LONG_AGO, Opened, World, index_of, is_active, play

POLL_S = 0.1
CLOSE_S = 0.25
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
    settings: Settings
    starts_pods: bool = True
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    # -- the operator ------------------------------------------------------------------------

    async def start_operator(self) -> None:
        work = operate(
            self.world.cluster, clock=SystemClock(), random=random.Random(3), settings=self.settings
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
        return await self.world.cluster.create(
            TRAINING_JOBS.untyped(), {**body, "metadata": metadata}
        )

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

    async def until_told(self, reason: str) -> Body:
        """The event with this reason."""

        async def read() -> Body:
            return {"items": [e for e in await self.events() if e["reason"] == reason]}

        found = await self.world.until(read, lambda found: found["items"])
        told: Body = found["items"][0]
        return told

    # -- nodes -------------------------------------------------------------------------------

    async def play_nodes(self) -> None:
        while True:
            for pod in await self.world.pods(JOB_UID):
                with contextlib.suppress(NotFoundError, ConflictError, InvalidError):
                    await self._move(pod)
            await asyncio.sleep(POLL_S)

    async def end_trainer(
        self, name: str, index: int, exit_code: int = 0, *, disrupted: bool = False
    ) -> None:
        """The running trainer of an index ends so."""
        pod = await self.trainer(name, index)
        phase = "Failed" if exit_code else "Succeeded"
        status = _ended(pod, phase, exit_code)
        if disrupted:
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
        await self.world.report(pod, status)

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

    async def _move(self, pod: Body) -> None:
        """One step of a pod's life."""
        phase = pod.get("status", {}).get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            if phase not in {"Succeeded", "Failed"}:
                await self.world.report(pod, _ended(pod, "Failed", 143))
            await self.world.cluster.delete(
                PODS,
                self.world.key(pod["metadata"]["name"]),
                Deletion(uid=pod["metadata"]["uid"], grace_s=0),
            )
        elif not self.starts_pods:
            return
        elif not pod["spec"].get("nodeName"):
            await self.world.bind(pod, "node-0")
        elif phase == "Pending":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
            running = {"running": {"startedAt": LONG_AGO}}
            containers = [_container(one, running, is_ready=True) for one in _containers(pod)]
            await self.world.report(
                pod, {"phase": "Running", "conditions": [ready], "containerStatuses": containers}
            )


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
    chosen = Settings(namespace=world.namespace, **settings)  # type: ignore[arg-type]
    stage = Stage(world, chosen)
    nodes = asyncio.create_task(stage.play_nodes())
    await stage.start_operator()
    try:
        yield stage
    finally:
        nodes.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await nodes
        await stage.stop_operator()


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


def _ended(pod: Body, phase: str, exit_code: int) -> Body:
    """It ended long ago, so nothing waits for it to cool down."""
    state = {"terminated": {"exitCode": exit_code, "startedAt": LONG_AGO, "finishedAt": LONG_AGO}}
    containers = [_container(one, state, is_ready=False) for one in _containers(pod)]
    return {"phase": phase, "containerStatuses": containers}


def _container(container: Body, state: Body, *, is_ready: bool) -> Body:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _containers(pod: Body) -> list[Body]:
    found: list[Body] = pod["spec"]["containers"]
    return found
