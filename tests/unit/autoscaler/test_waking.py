"""What lets the autoscaler look before its period is over."""

from __future__ import annotations

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key
from swell.runtime.cluster import merge_patch
from tests.autoscaler_cases import a_job
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
