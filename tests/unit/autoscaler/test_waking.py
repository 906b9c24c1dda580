"""What lets the autoscaler look before its period is over."""

from __future__ import annotations

import asyncio

from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Key
from swell.autoscaler.pacing import Pacing
from swell.runtime.cluster import merge_patch
from swell.sim.loop import VirtualClock, run
from tests.autoscaler_cases import a_job, a_role
from tests.unit.autoscaler.test_controller import ROLE, SETTINGS, Stage, play

JOB = Key("ns", "a")


async def with_room_since_the_last_pass(stage: Stage) -> None:
    """A job that had all there was, and a node that came just after the last pass."""
    await stage.node("n1", cpu=1, memory="8Gi")
    await stage.job(a_job("a", t=ROLE))
    await stage.pod("a", 0, "n1")
    await stage.clock.sleep(SETTINGS.scale_period_s + 2)
    await stage.node("n2", cpu=2, memory="8Gi")
    await stage.clock.sleep(2)
    assert await stage.target("a") == 1


async def report(stage: Stage, *sizes: int) -> None:
    training = {"reportedAt": "2026-01-01T00:00:00Z", "rates": {str(one): "9" for one in sizes}}
    status = {"status": {"training": training}}
    await stage.user.patch(AI_TRAINING_JOBS.status, JOB, merge_patch(status))


def test_report_of_a_new_size_is_looked_at_at_once() -> None:
    """The size of a job rests on what it has measured: it may grow no further before."""

    async def scene(stage: Stage) -> None:
        await with_room_since_the_last_pass(stage)
        await report(stage, 1)
        await stage.clock.sleep(2)

        assert await stage.target("a") == 2

    play(scene)


def test_report_of_known_sizes_wakes_no_one() -> None:
    async def scene(stage: Stage) -> None:
        await report_before(stage)
        await report(stage, 1)
        await stage.clock.sleep(2)

        assert await stage.target("a") == 1

    async def report_before(stage: Stage) -> None:
        await stage.node("n1", cpu=1, memory="8Gi")
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n1")
        await report(stage, 1)
        await stage.clock.sleep(SETTINGS.scale_period_s + 2)
        await stage.node("n2", cpu=2, memory="8Gi")
        await stage.clock.sleep(2)

    play(scene)


def test_room_that_pods_leave_is_looked_at_before_the_period_is_over() -> None:
    """A device that a job has left is lost time for the others."""

    async def scene(stage: Stage) -> None:
        await stage.node("n1", cpu=3, memory="8Gi")
        await stage.job(a_job("a", t=ROLE))
        await stage.job(a_job("b", t=a_role(1, 1, cpu=1, edl="Never")))
        await stage.pod("a", 0, "n1")
        await stage.pod("b", 0, "n1")
        await stage.clock.sleep(SETTINGS.scale_period_s + 2)
        assert await stage.target("a") == 1
        await stage.user.delete(PODS, Key("ns", "b-t-0"))
        await stage.user.delete(AI_TRAINING_JOBS, Key("ns", "b"))
        await stage.clock.sleep(3)

        assert await stage.target("a") == 2

    play(scene)


def test_passes_for_room_rest_for_many_times_what_the_last_one_took() -> None:
    async def story() -> None:
        clock = VirtualClock()
        pacing = Pacing(clock, 600.0)
        pacing.begin()
        resting = asyncio.ensure_future(pacing.rest(2.0))
        await clock.sleep(1)
        pacing.wake_for_room()
        await clock.sleep(30)
        assert not resting.done()
        await clock.sleep(12)
        assert resting.done()
        pacing.begin()
        resting = asyncio.ensure_future(pacing.rest(0.01))
        pacing.wake_for_room()
        await clock.sleep(2)
        assert resting.done()

    run(story())
