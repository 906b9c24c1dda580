"""What users of elastic jobs do."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from swell.api.aitrainingjob import FINAL, Phase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from swell.sim.scenario import USER
from swell.sim.world import World
from tests.sim.autoscaler.ground import WORK, Ground
from tests.sim.operator.sight import job_at

NAMESPACE = "default"
Script = Callable[[World], Coroutine[Any, Any, None]]


class User:
    """Somebody with kubectl and a cluster of some nodes."""

    def __init__(self, world: World, nodes: dict[str, int]) -> None:
        self.world = world
        self.ground = Ground(world, nodes)
        self._cluster = world.connect(USER)

    @classmethod
    async def arrive(cls, world: World, n_nodes: int = 4, n_cpus: int = 4) -> User:
        user = cls(world, {f"node-{n}": n_cpus for n in range(n_nodes)})
        await user.ground.start()
        return user

    async def submit(
        self,
        name: str,
        minimum: int,
        maximum: int,
        *,
        work_s: float = 600.0,
        replicas: int | None = None,
        cpu: str = "1",
        edl: str = "Auto",
    ) -> None:
        container = {
            "name": "aitj-main",
            "image": "local",
            "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
        }
        role: Body = {
            "replicas": minimum if replicas is None else replicas,
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "edlPolicy": edl,
            "template": {
                "metadata": {"annotations": {WORK: str(work_s)}},
                "spec": {"containers": [container]},
            },
        }
        body = {
            "apiVersion": AI_TRAINING_JOBS.api_version,
            "kind": AI_TRAINING_JOBS.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicaSpecs": {"trainer": role}},
        }
        await self._cluster.create(AI_TRAINING_JOBS, body)

    async def edit(self, name: str, **bounds: int) -> None:
        body = {"spec": {"replicaSpecs": {"trainer": bounds}}}
        await self._cluster.patch(AI_TRAINING_JOBS, Key(NAMESPACE, name), merge_patch(body))

    async def delete(self, name: str) -> None:
        await self._cluster.delete(AI_TRAINING_JOBS, Key(NAMESPACE, name))

    async def wait(self, *what: object, up_to_s: float = 30) -> None:
        await self.world.clock.sleep(self.world.chance.between(0, up_to_s, "user", *what))

    async def until(self, name: str, *phases: Phase, within_s: float = 300) -> bool:
        return await self.world.until(lambda: self.phase(name) in phases, within_s)

    async def until_size(self, name: str, at_least: int, within_s: float = 200) -> bool:
        return await self.world.until(lambda: self.size(name) >= at_least, within_s)

    def phase(self, name: str) -> Phase | None:
        job = job_at(self.world, name)
        return job.status.phase if job else None

    def size(self, name: str) -> int:
        job = job_at(self.world, name)
        return job.status.target_replicas.get("trainer", 0) if job else 0


async def share(world: World) -> None:
    """Three elastic jobs share a cluster; a rigid one arrives, runs and ends; they grow back."""
    user = await User.arrive(world)
    for name in ("ant", "bee", "cat"):
        await user.submit(name, 1, 8, work_s=900)
        await user.wait(name, up_to_s=10)
    await user.until_size("cat", 4)
    await user.submit("rigid", 6, 6, edl="Never", work_s=300)
    await user.until("rigid", *FINAL)


async def finish(world: World) -> None:
    """Elastic jobs of little work come and go one after the other."""
    user = await User.arrive(world, n_nodes=2)
    for at in range(5):
        size = world.chance.integer(1, 3, "minimum", at)
        await user.submit(f"job-{at}", size, size + 5, work_s=120)
        await user.wait(at, up_to_s=40)


async def squeeze(world: World) -> None:
    """A job that can never start comes and goes; the others take no notice of it."""
    user = await User.arrive(world, n_nodes=2)
    await user.submit("ant", 2, 8, work_s=700)
    await user.until_size("ant", 4)
    await user.submit("hopeless", 9, 9, edl="Never")
    await user.wait("hopeless")
    await user.submit("bee", 1, 4, work_s=200)
    await user.until("bee", *FINAL)
    await user.delete("hopeless")


async def edits(world: World) -> None:
    """People change the bounds of jobs that run, and delete one."""
    user = await User.arrive(world)
    await user.submit("ant", 1, 9, work_s=900)
    await user.submit("bee", 2, 9, work_s=900)
    await user.submit("cat", 1, 3, work_s=300)
    await user.until_size("ant", 6)
    await user.edit("ant", maxReplicas=4)
    await user.wait("bee")
    await user.edit("bee", minReplicas=1, maxReplicas=12)
    await user.wait("cat")
    await user.delete("cat")


CLASSIC_JOBS = 20
CLASSIC_APART_S = 90.0
CLASSIC_NODES = 9
CLASSIC_CPUS = 4


async def classic(world: World, *, minimum: int, replicas: int) -> None:
    """Twenty jobs of up to ten trainers arrive 90 s apart, more than the cluster can hold."""
    user = await User.arrive(world, CLASSIC_NODES, CLASSIC_CPUS)
    for at in range(CLASSIC_JOBS):
        work_s = world.chance.between(3000, 7000, "work", at)
        await user.submit(
            f"job-{at:02}",
            minimum,
            10,
            replicas=replicas,
            work_s=work_s,
            edl="Auto" if minimum < replicas or minimum < 10 else "Never",
        )
        await world.clock.sleep(CLASSIC_APART_S)


async def crowd(world: World) -> None:
    """Elastic jobs that never end, more than there is room for at their maximum."""
    user = await User.arrive(world, n_nodes=5)
    for at in range(6):
        await user.submit(f"job-{at}", 1 + at % 2, 6 + at, work_s=1e9)
        await user.wait(at, up_to_s=20)


SCRIPTS: dict[str, Script] = {
    "share": share,
    "finish": finish,
    "squeeze": squeeze,
    "edits": edits,
}
