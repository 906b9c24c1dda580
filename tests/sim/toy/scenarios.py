"""What users of the toy controller do, and what else happens to their pods."""

from __future__ import annotations

from dataclasses import replace

from swell.api.pod import Pod
from swell.sim.actors.nemesis import RATES_MAX, common_disturbances
from swell.sim.actors.pod_lifecycle import PodBehavior
from swell.sim.leadership import in_pair
from swell.sim.scenario import Scenario, SimulationSubject
from swell.sim.world import SimulatedWorld
from tests.sim.toy.controller import LEASE, toy_main, toy_replica_main
from tests.sim.toy.flaws import Flaw
from tests.sim.toy.kind import (
    FAILS_ANNOTATION,
    FINAL,
    TOY_JOBS,
    TOY_KIND,
    ToyJob,
    attempt_of,
    toy_job,
)
from tests.sim.toy.rules import end_state, liveness, safety
from tests.sim.user import SimulatedUser


def toy_subject(flaws: Flaw = Flaw.NONE) -> SimulationSubject:
    return SimulationSubject(
        name="toy",
        components={"toy": toy_main(flaws)},
        scenarios=SCENARIOS,
        safety=safety,
        liveness=liveness,
        end_state=end_state,
        kinds=(TOY_KIND,),
        behavior_of=behavior_of,
        disturbances=common_disturbances,
    )


def toy_pair(flaws: Flaw = Flaw.NONE) -> SimulationSubject:
    """Two replicas, one of which leads; a paused one may believe that it still does."""

    return in_pair(replace(toy_subject(), components={"toy": toy_replica_main(flaws)}), LEASE)


def behavior_of(world: SimulatedWorld, pod: Pod) -> PodBehavior:
    """By name and attempt, so that a pod created anew after an eviction does the same again."""
    key = (pod.metadata.key, attempt_of(pod))
    fails = attempt_of(pod) < int(pod.metadata.annotations[FAILS_ANNOTATION])
    return PodBehavior(
        start_s=world.chance.between(0.1, 3, "start", *key),
        run_s=world.chance.between(2, 40, "run", *key),
        exit_code=1 if fails else 0,
        stop_s=world.chance.between(0, 8, "stop", *key),
    )


def user_in(world: SimulatedWorld) -> SimulatedUser[ToyJob]:
    return SimulatedUser(world, TOY_JOBS, toy_job, lambda job: job.status.phase in FINAL)


async def finish(world: SimulatedWorld) -> None:
    """Jobs of several sizes run to their end."""
    user = user_in(world)
    for index, name in enumerate(("ant", "bee", "cat")):
        size = world.chance.integer(1, 4, "size", name)
        await user.submit(name, replicas=size, clean=index != 1)
        await user.wait(name)


async def restart(world: SimulatedWorld) -> None:
    """Pods fail; one job has more failures than it may have."""
    user = user_in(world)
    await user.submit("ant", replicas=3, fails=[2, 0, 1])
    await user.submit("bee", replicas=2, fails=[0, 3], clean=False)
    await user.wait("bee")
    await user.submit("cat", replicas=1, fails=[9], restartLimit=2)


async def delete(world: SimulatedWorld) -> None:
    """Jobs are deleted as they start, as they run, and after they have ended."""
    user = user_in(world)
    await user.submit("ant", replicas=2)
    await user.submit("bee", replicas=3)
    await user.submit("cat", replicas=1, clean=False)
    await user.wait("ant", up_to_s=2)
    await user.delete("ant")
    await user.until_running("bee", 3)
    await user.delete("bee")
    await user.wait("cat", up_to_s=60)
    await user.delete("cat")


async def recreate(world: SimulatedWorld) -> None:
    """A job is replaced by another one of the same name: first patiently, then by force."""
    user = user_in(world)
    await user.submit("ant", replicas=3, fails=[1])
    await user.until_running("ant", 2)
    await user.delete("ant")
    await user.until_gone("ant")
    await user.submit("ant", replicas=2, fails=[0, 1], clean=False)
    await user.until_ended("ant", within_s=200)
    await user.force_delete("ant")
    await user.submit("ant", replicas=2, fails=[1])


async def resize(world: SimulatedWorld) -> None:
    """Users change their mind about the size."""
    user = user_in(world)
    await user.submit("ant", replicas=2, fails=[1])
    await user.submit("bee", replicas=4)
    await user.until_running("bee", 4)
    await user.edit("bee", {"replicas": 2})
    await user.until_running("ant", 2)
    await user.edit("ant", {"replicas": 4})
    await user.wait("again")
    await user.edit("ant", {"replicas": 1})


SCENARIOS = (
    Scenario("finish", finish, disturbances=RATES_MAX, steady=True),
    Scenario("restart", restart, disturbances=RATES_MAX, steady=True),
    Scenario("delete", delete, disturbances=RATES_MAX),
    Scenario("recreate", recreate, disturbances=RATES_MAX),
    Scenario("resize", resize, disturbances=RATES_MAX),
)
