"""What users of the toy controller do, and what else happens to their pods."""

from __future__ import annotations

from dataclasses import replace

from swell.api.meta import Key
from swell.api.pod import Pod, PodPhase
from swell.runtime.cluster import merge_patch
from swell.sim.actors.disturbances import RATES_MAX, common_disturbances
from swell.sim.actors.kubelet import PodStory
from swell.sim.invariants import SafetyCheck
from swell.sim.leadership import LeadersWrite
from swell.sim.scenario import USER, Scenario, Subject
from swell.sim.world import World
from tests.sim.toy.controller import LEASE_TIMES, toy_main, toy_replica_main
from tests.sim.toy.flaws import Flaw
from tests.sim.toy.kind import (
    FAILS_ANNOTATION,
    FINAL,
    NAMESPACE,
    TOY_JOBS,
    TOY_KIND,
    attempt_of,
    toy_job,
)
from tests.sim.toy.rules import end_state, job_at, liveness, pods_in, safety


def toy_subject(flaws: Flaw = Flaw.NONE) -> Subject:
    return Subject(
        name="toy",
        components={"toy": toy_main(flaws)},
        scenarios=SCENARIOS,
        safety=safety,
        liveness=liveness,
        end_state=end_state,
        kinds=(TOY_KIND,),
        story_of=story_of,
        disturbances=common_disturbances,
    )


def toy_pair(flaws: Flaw = Flaw.NONE) -> Subject:
    """Two replicas, one of which leads; a paused one may believe that it still does."""

    def pair_safety(world: World) -> list[SafetyCheck]:
        return [*safety(world), LeadersWrite(world, LEASE_TIMES.renew_deadline_s)]

    return replace(
        toy_subject(),
        name="toy pair",
        components={"toy": toy_replica_main(flaws)},
        scenarios=tuple(replace(scenario, replicas=2) for scenario in SCENARIOS),
        safety=pair_safety,
    )


def story_of(world: World, pod: Pod) -> PodStory:
    """By name and attempt, so that a pod created anew after an eviction does the same again."""
    key = (pod.metadata.key, attempt_of(pod))
    fails = attempt_of(pod) < int(pod.metadata.annotations[FAILS_ANNOTATION])
    return PodStory(
        start_s=world.chance.between(0.1, 3, "start", *key),
        run_s=world.chance.between(2, 40, "run", *key),
        exit_code=1 if fails else 0,
        stop_s=world.chance.between(0, 8, "stop", *key),
    )


class User:
    """Somebody with kubectl."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._cluster = world.connect(USER)

    async def create(self, name: str, **spec: object) -> None:
        await self._cluster.create(TOY_JOBS, toy_job(name, **spec))

    async def delete(self, name: str) -> None:
        await self._cluster.delete(TOY_JOBS, Key(NAMESPACE, name))

    async def force_delete(self, name: str) -> None:
        """Take the finalizer off, then delete: pods are left to the garbage collector."""
        nothing = merge_patch({"metadata": {"finalizers": None}})
        await self._cluster.patch(TOY_JOBS, Key(NAMESPACE, name), nothing)
        await self.delete(name)

    async def resize(self, name: str, replicas: int) -> None:
        await self._cluster.patch(
            TOY_JOBS, Key(NAMESPACE, name), merge_patch({"spec": {"replicas": replicas}})
        )

    async def until_running(self, name: str, n_pods: int) -> None:
        await self.world.until(lambda: self._n_running(name) >= n_pods, within_s=40)

    async def until_ended(self, name: str) -> None:
        await self.world.until(lambda: self._has_ended(name), within_s=200)

    async def until_gone(self, name: str) -> None:
        await self.world.until(lambda: job_at(self.world, name) is None, within_s=1000)

    async def wait(self, *what: object, up_to_s: float = 10) -> None:
        await self.world.clock.sleep(self.world.chance.between(0, up_to_s, "user", *what))

    def _has_ended(self, name: str) -> bool:
        job = job_at(self.world, name)
        return job is not None and job.status.phase in FINAL

    def _n_running(self, name: str) -> int:
        return sum(
            pod.metadata.name.startswith(f"{name}-") and pod.status.phase is PodPhase.RUNNING
            for pod in pods_in(self.world)
        )


async def finish(world: World) -> None:
    """Jobs of several sizes run to their end."""
    user = User(world)
    for index, name in enumerate(("ant", "bee", "cat")):
        size = world.chance.integer(1, 4, "size", name)
        await user.create(name, replicas=size, clean=index != 1)
        await user.wait(name)


async def restart(world: World) -> None:
    """Pods fail; one job has more failures than it may have."""
    user = User(world)
    await user.create("ant", replicas=3, fails=[2, 0, 1])
    await user.create("bee", replicas=2, fails=[0, 3], clean=False)
    await user.wait("bee")
    await user.create("cat", replicas=1, fails=[9], restartLimit=2)


async def delete(world: World) -> None:
    """Jobs are deleted as they start, as they run, and after they have ended."""
    user = User(world)
    await user.create("ant", replicas=2)
    await user.create("bee", replicas=3)
    await user.create("cat", replicas=1, clean=False)
    await user.wait("ant", up_to_s=2)
    await user.delete("ant")
    await user.until_running("bee", 3)
    await user.delete("bee")
    await user.wait("cat", up_to_s=60)
    await user.delete("cat")


async def recreate(world: World) -> None:
    """A job is replaced by another one of the same name: first patiently, then by force."""
    user = User(world)
    await user.create("ant", replicas=3, fails=[1])
    await user.until_running("ant", 2)
    await user.delete("ant")
    await user.until_gone("ant")
    await user.create("ant", replicas=2, fails=[0, 1], clean=False)
    await user.until_ended("ant")
    await user.force_delete("ant")
    await user.create("ant", replicas=2, fails=[1])


async def resize(world: World) -> None:
    """Users change their mind about the size."""
    user = User(world)
    await user.create("ant", replicas=2, fails=[1])
    await user.create("bee", replicas=4)
    await user.until_running("bee", 4)
    await user.resize("bee", 2)
    await user.until_running("ant", 2)
    await user.resize("ant", 4)
    await user.wait("again")
    await user.resize("ant", 1)


SCENARIOS = (
    Scenario("finish", finish, disturbances=RATES_MAX, steady=True),
    Scenario("restart", restart, disturbances=RATES_MAX, steady=True),
    Scenario("delete", delete, disturbances=RATES_MAX),
    Scenario("recreate", recreate, disturbances=RATES_MAX),
    Scenario("resize", resize, disturbances=RATES_MAX),
)
