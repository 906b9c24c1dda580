"""Suspended batch/v1 Jobs behave the same on the embedded cluster and on a real one."""

from __future__ import annotations

from swell.api.kinds import JOBS, PODS
from tests.contract.controller_world import (
    TRACKING,
    Opened,
    World,
    condition_of,
    finished,
    has,
    play,
)

HELD = "contract.example/held"


def test_suspended_job_waits(opened: Opened) -> None:
    """A Job created suspended makes no pods and has not started; resumed, it does both."""

    async def scenario(world: World) -> None:
        await world.job("a", suspend=True)
        status = await world.until_status(JOBS, "a", lambda s: has(s, "Suspended"))
        assert "startTime" not in status
        assert condition_of(status, "Suspended")["reason"] == "JobSuspended"
        assert await world.pods() == []

        await world.change(JOBS, "a", {"spec": {"suspend": False}})
        await world.until_pods(1)
        status = await world.until_status(JOBS, "a", lambda s: s.get("active") == 1)
        assert status["startTime"]
        assert condition_of(status, "Suspended")["status"] == "False"
        assert condition_of(status, "Suspended")["reason"] == "JobResumed"

    play(opened, scenario)


def test_job_suspended_in_flight_gives_up_its_pods(opened: Opened) -> None:
    """Suspending deletes the pods without counting them, and stops the clock."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2)
        await world.until_pods(2)
        await world.change(JOBS, "a", {"spec": {"suspend": True}})
        await world.until_pods(0)
        status = await world.until_status(
            JOBS, "a", lambda s: has(s, "Suspended") and "active" not in s
        )

        assert "failed" not in status
        assert "startTime" not in status

    play(opened, scenario)


def test_work_that_is_done_when_its_job_is_suspended_completes_it(opened: Opened) -> None:
    """All pods have succeeded by then: the Job is complete, and never was suspended."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2, completions=2)
        for pod in await world.until_pods(2):
            await world.succeed(pod)
        await world.change(JOBS, "a", {"spec": {"suspend": True}})
        status = await finished(world, "a", "Complete")

        assert status["succeeded"] == 2
        assert not has(status, "Suspended")

    play(opened, scenario)


def test_suspended_work_queue_is_complete_with_its_first_success(opened: Opened) -> None:
    """It has no completions: when the other pods are gone, one that succeeded is enough."""

    async def scenario(world: World) -> None:
        await world.job("a", parallelism=2)
        first, _ = await world.until_pods(2)
        await world.succeed(first)
        await world.until_status(JOBS, "a", lambda s: s.get("succeeded") == 1)
        await world.change(JOBS, "a", {"spec": {"suspend": True}})
        status = await finished(world, "a", "Complete")

        assert not has(status, "Suspended")

    play(opened, scenario)


def test_pod_that_succeeds_after_its_job_was_suspended_does_not_count(opened: Opened) -> None:
    """It was given up: the Job stays suspended, and makes the pod anew when it is resumed."""

    async def scenario(world: World) -> None:
        await world.job("a")
        (pod,) = await world.until_pods(1)
        name = pod["metadata"]["name"]
        # Somebody else's finalizer stands in for a node on which the program still ends.
        held = {"metadata": {"finalizers": [TRACKING, HELD]}}
        await world.change(PODS, name, held)
        await world.change(JOBS, "a", {"spec": {"suspend": True}})
        await world.until(
            lambda: world.get(PODS, name), lambda found: "deletionTimestamp" in found["metadata"]
        )
        await world.succeed(pod)
        await world.change(PODS, name, {"metadata": {"finalizers": None}})
        await world.until_gone(PODS, name)
        status = await world.until_status(
            JOBS, "a", lambda s: has(s, "Suspended") and not s.get("terminating")
        )
        assert "active" not in status
        assert "succeeded" not in status

        await world.change(JOBS, "a", {"spec": {"suspend": False}})
        (again,) = await world.until_pods(1)
        await world.succeed(again)
        assert (await finished(world, "a", "Complete"))["succeeded"] == 1

    play(opened, scenario)
