"""The guard: reads pass, writes are begun and awaited only while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from swell.runtime.errors import OutcomeUnknownError
from swell.runtime.executor import Executor, FailureKind
from swell.runtime.guard import GuardedCluster, LeaderGuard, NotLeaderError
from swell.runtime.plan import CreateObject, Plan
from swell.sim.loop import run
from tests.unit.runtime.world import TOYS, World, key, toy_body

Story = Callable[[World], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        await story(World())

    run(main())


def test_write_under_way_when_leadership_ends_is_given_up() -> None:
    """No write lingers, to be sent after the deadline; what became of it is unknown."""

    async def story(world: World) -> None:
        guard = LeaderGuard(world.clock)
        guard.open_until(10)
        line = world.line()
        line.delay_s = 60
        with pytest.raises(OutcomeUnknownError):
            await GuardedCluster(line, guard).create(TOYS, toy_body("t"))
        assert world.clock.monotonic() == 10
        await asyncio.sleep(100)

        assert (await world.user.list(TOYS)).items == ()

    play(story)


def test_guarded_cluster_reads_always_and_writes_while_open() -> None:
    """Reading needs no leadership; every kind of write does."""

    async def story(world: World) -> None:
        guard = LeaderGuard(world.clock)
        guarded = GuardedCluster(world.line(), guard)
        guard.open_until(100)
        made = await guarded.create(TOYS.untyped(), toy_body("t"))
        guard.close()

        assert await guarded.get(TOYS.untyped(), key("t")) == made
        assert len((await guarded.list(TOYS)).items) == 1
        async with guarded.watch(TOYS, resource_version="1", timeout_s=1) as events:
            assert [event async for event in events]
        with pytest.raises(NotLeaderError):
            await guarded.update(TOYS.untyped(), made)
        with pytest.raises(NotLeaderError):
            await guarded.delete(TOYS, key("t"))
        with pytest.raises(NotLeaderError):
            await guarded.delete_collection(TOYS)

    play(story)


def test_executor_takes_a_refused_write_for_one_to_retry() -> None:
    """Nothing was sent, so nothing is uncertain."""

    async def story(world: World) -> None:
        guarded = GuardedCluster(world.line(), LeaderGuard(world.clock))
        outcome = await Executor(guarded).execute(Plan((CreateObject(TOYS, toy_body("t")),)))

        assert [failure.kind for failure in outcome.failures] == [FailureKind.RETRY]

    play(story)


def test_time_out_of_the_write_itself_is_not_taken_for_the_guards() -> None:
    """Whose deadline passed decides what is reported."""

    async def story(world: World) -> None:
        guard = LeaderGuard(world.clock)
        guard.open_until(10)
        line = world.line()
        line.fail_before["create"] = [TimeoutError("its own")]
        with pytest.raises(TimeoutError, match="its own"):
            await GuardedCluster(line, guard).create(TOYS, toy_body("t"))

    play(story)
