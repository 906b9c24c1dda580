"""The built-in controllers at work together, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from swell.api.kinds import JOBS, LEASES, NODES, PODS, REPLICA_SETS
from swell.api.meta import Body, Key
from swell.api.times import format_micro_time
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.controllers.assembly import add_controllers
from swell.cluster.embedded.storage import Commit, Storage
from swell.runtime.cluster import Patch, PatchKind, merge_patch
from swell.runtime.errors import OutcomeUnknownError, UnreachableError
from swell.runtime.manager import Manager
from swell.sim.loop import VirtualClock, run

NAMESPACE = "default"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
READY = {"type": "Ready", "status": "True"}
WRITES = ("create", "update", "patch", "delete")


@dataclass(slots=True)
class Faults:
    """Which of the controllers' writes fails, and how.

    `lost` is not applied, `unanswered` is; after `crash` it is applied and the controllers die.
    """

    kind: str = ""
    at: int = -1
    n_writes: int = 0
    life: int = 0
    crashed: asyncio.Event = field(default_factory=asyncio.Event)

    def next_fault(self) -> str:
        self.n_writes += 1
        return self.kind if self.n_writes - 1 == self.at else ""


class Unreliable:
    """The cluster as controllers have it in one life, with the faults they meet."""

    def __init__(self, cluster: InProcessCluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._life = faults.life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        if name not in WRITES:
            return call

        async def write(*args: object, **more: object) -> object:
            fault = self._faults.next_fault()
            if fault == "lost" or self._life != self._faults.life:
                raise UnreachableError("lost on its way")
            answer: object = await call(*args, **more)
            if fault == "crash":
                self._faults.life += 1
                self._faults.crashed.set()
            if fault:
                raise OutcomeUnknownError("no answer came")
            return answer

        return write


@dataclass(slots=True)
class Scene:
    """An embedded cluster in virtual time, and a user of it."""

    api: ApiServer
    user: InProcessCluster
    commits: list[Commit] = field(default_factory=list)

    async def job(self, name: str, **spec: object) -> None:
        body = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE, **spec}}
        await self.user.create(JOBS, {**body, "metadata": metadata(name)})

    async def status(self, name: str = "j") -> Body:
        found = await self.user.get(JOBS.untyped(), Key(NAMESPACE, name))
        status: Body = found.get("status") or {}
        return status

    async def report(self, pod: Key, status: Body) -> None:
        patch = Patch(PatchKind.STRATEGIC, {"status": status})
        await self.user.patch(PODS.status, pod, patch)

    async def finish_pods(self, phase: str = "Succeeded") -> None:
        """Act as a kubelet under which every pod ends."""
        for pod in (await self.user.list(PODS)).items:
            if pod.status.phase.value == "Pending":
                await self.report(pod.metadata.key, {"phase": phase})

    def created_pods(self) -> int:
        return sum(c.collection == "pods" and c.verb == "create" for c in self.commits)


def metadata(name: str) -> Body:
    return {"name": name, "namespace": NAMESPACE}


def play(act: Callable[[Scene], Awaitable[None]], faults: Faults | None = None) -> None:
    """Act in a cluster with its controllers; `faults` are met by those alone."""

    async def main() -> None:
        clock, rng = VirtualClock(), random.Random(3)
        api = new_api_server(Storage(clock.now), clock, rng)
        scene = Scene(api, InProcessCluster(api, "user"))
        living = asyncio.create_task(live(api, rng, faults or Faults()))
        await asyncio.sleep(1)
        api.storage.on_commit.append(scene.commits.append)
        await act(scene)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)

    run(main())


async def live(api: ApiServer, rng: random.Random, faults: Faults) -> None:
    """Run the controllers, and new ones whenever they die."""
    while True:
        manager = Manager(clock=api.clock, drain_s=0.0)
        add_controllers(
            manager,
            api,
            rng,
            connect=lambda actor: Unreliable(InProcessCluster(api, actor), faults),
        )
        running = asyncio.create_task(manager.run())
        try:
            await faults.crashed.wait()
        finally:
            faults.crashed.clear()
            manager.stop()
            await running


def test_quiet_cluster_is_not_written() -> None:
    """When everything is settled, a whole day brings no write."""

    async def act(scene: Scene) -> None:
        await scene.job("j", parallelism=3, completions=3)
        selector = {"matchLabels": {"app": "a"}}
        template = {**TEMPLATE, "metadata": {"labels": {"app": "a"}}}
        template["spec"] = {**TEMPLATE["spec"], "restartPolicy": "Always"}
        spec = {"replicas": 3, "selector": selector, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata("a")}
        await scene.user.create(REPLICA_SETS, {**body, "spec": spec})
        await asyncio.sleep(60)
        settled = scene.api.storage.version
        await asyncio.sleep(86_400)

        assert scene.created_pods() == 6
        assert scene.api.storage.version == settled

    play(act)


def test_silent_node_is_tainted_and_freed() -> None:
    """40 s after the last renewal the state is unknown; a Ready node loses its taints."""

    async def act(scene: Scene) -> None:
        body: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        await scene.user.create(NODES, {**body, "status": {"conditions": [READY]}})
        await renew(scene, create=True)
        await asyncio.sleep(1)
        assert await taints(scene) == []

        for _ in range(20):
            await asyncio.sleep(10)
            await renew(scene)
        await asyncio.sleep(39)
        assert await readiness(scene) == "True"
        await asyncio.sleep(2)
        assert await readiness(scene) == "Unknown"
        assert await taints(scene) == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ]

        await renew(scene)
        patch = Patch(PatchKind.STRATEGIC, {"status": {"conditions": [READY]}})
        await scene.user.patch(NODES.status, Key("", "n"), patch)
        await asyncio.sleep(1)
        assert await taints(scene) == []
        await asyncio.sleep(120)
        assert await readiness(scene) == "Unknown"

    play(act)


async def renew(scene: Scene, *, create: bool = False) -> None:
    spec = {"renewTime": format_micro_time(scene.api.clock.now())}
    key = Key("kube-node-lease", "n")
    if create:
        own = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        place = {"name": key.name, "namespace": key.namespace}
        await scene.user.create(LEASES, {**own, "metadata": place})
    else:
        await scene.user.patch(LEASES, key, merge_patch({"spec": spec}))


async def taints(scene: Scene) -> list[str]:
    node = await scene.user.get(NODES, Key("", "n"))
    return sorted(taint.key for taint in node.spec.taints)


async def readiness(scene: Scene) -> str:
    node = await scene.user.get(NODES, Key("", "n"))
    return next(c.status for c in node.status.conditions if c.type == "Ready")


def test_failed_pod_is_replaced_ten_seconds_later() -> None:
    """The wait after a failure is kept, and doubled after the next."""

    async def act(scene: Scene) -> None:
        await scene.job("j")
        await asyncio.sleep(1)
        await scene.user.delete(PODS, (await scene.user.list(PODS)).items[0].metadata.key)
        await asyncio.sleep(8)
        assert scene.created_pods() == 1
        await asyncio.sleep(3)
        assert scene.created_pods() == 2
        await scene.user.delete(PODS, (await scene.user.list(PODS)).items[0].metadata.key)
        await asyncio.sleep(18)
        assert scene.created_pods() == 2
        await asyncio.sleep(4)
        assert scene.created_pods() == 3
        assert (await scene.status())["failed"] == 2

    play(act)


async def run_a_job(scene: Scene) -> None:
    """A Job of four, two at a time, from its start to its end."""
    await scene.job("j", parallelism=2, completions=4)
    for _ in range(6):
        await asyncio.sleep(120)
        await scene.finish_pods()
    await asyncio.sleep(120)
    status = await scene.status()

    assert status["succeeded"] == 4
    assert "failed" not in status
    assert Counter(c["type"] for c in status["conditions"])["Complete"] == 1
    assert status["uncountedTerminatedPods"] == {}
    assert scene.created_pods() == 4
    pods = (await scene.user.list(PODS)).items
    assert all(not pod.metadata.finalizers for pod in pods)


@pytest.mark.parametrize("kind", ["lost", "unanswered", "crash"])
def test_no_pod_counts_twice_whichever_write_fails(kind: str) -> None:
    """Each write of a Job's life is lost, not answered, or the controllers' last: same end."""
    quiet = Faults()
    play(run_a_job, quiet)
    assert quiet.n_writes > 12

    for number in range(quiet.n_writes):
        play(run_a_job, Faults(kind, at=number))
