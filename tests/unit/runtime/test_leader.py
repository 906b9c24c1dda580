"""Leader election among processes on one store, with pauses, lost answers and wrong clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from swell.api.kinds import LEASES
from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.errors import OutcomeUnknownError, UnreachableError
from swell.runtime.guard import GuardedCluster, NotLeaderError
from swell.runtime.leader import LeaderElector, LeadershipLostError, LeaseTimes
from swell.sim.loop import EPOCH_S, VirtualClock, run
from tests.unit.runtime.world import TOYS, Line, World, failure, toy_body, until

Story = Callable[[World], Awaitable[None]]
LEASE = Key("kube-system", "swell")


def play(story: Story) -> None:
    async def main() -> None:
        await story(World())

    run(main())


class Candidate:
    """A process that tries to lead and notes when it did."""

    def __init__(self, world: World, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self.world = world
        self.line: Line = world.line(name)
        self.elector = LeaderElector(
            self.line, LEASE, name, clock=clock or world.clock, random=Random(name)
        )
        self.led: list[tuple[float, float | None]] = []
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        self.led.append((self.world.clock.monotonic(), None))
        try:
            await asyncio.sleep(1e9)
        finally:
            self.led[-1] = (self.led[-1][0], self.world.clock.monotonic())

    @property
    def is_open(self) -> bool:
        return self.elector.guard.is_open


def test_one_of_many_leads() -> None:
    """At any moment at most one guard is open; one process leads; the leader stays."""

    async def story(world: World) -> None:
        candidates = [Candidate(world, f"c{n}") for n in range(5)]
        for _ in range(600):
            await asyncio.sleep(0.5)
            assert sum(c.is_open for c in candidates) <= 1

        assert sum(len(c.led) for c in candidates) == 1
        lease = await world.user.get(LEASES, LEASE)
        assert lease.spec.lease_transitions == 0
        assert lease.spec.lease_duration_seconds == 15

    play(story)


def test_leader_cut_off_falls_silent_before_another_begins() -> None:
    """A leader that cannot renew stops in time, and the next starts only after that."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        await until(lambda: first.is_open)
        second = Candidate(world, "second")
        await asyncio.sleep(20)
        cut_at = world.clock.monotonic()
        first.line.fail_before["update"] = [UnreachableError("cut")] * 100
        first.line.fail_before["get"] = [UnreachableError("cut")] * 100
        with pytest.raises(LeadershipLostError):
            await first.task
        silent_at = world.clock.monotonic()
        assert silent_at - cut_at <= 12
        assert not second.led
        await until(lambda: bool(second.led))

        assert second.led[0][0] - silent_at > 2
        assert (await world.user.get(LEASES, LEASE)).spec.lease_transitions == 1

    play(story)


def test_guard_closes_by_time_alone() -> None:
    """A process that was paused finds its guard closed, before any of its tasks noticed."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        await until(lambda: first.is_open)
        first.line.delay_s = 1e6  # no renewal is answered any more
        await asyncio.sleep(10.1)

        assert not first.is_open
        with pytest.raises(NotLeaderError):
            await GuardedCluster(first.line, first.elector.guard).create(TOYS, toy_body("t"))
        assert "create toys.toys.dev t" not in first.line.calls

    play(story)


@pytest.mark.parametrize("sent_ago_s", [0.0, 3.0])
def test_renewal_counts_from_when_it_was_sent(sent_ago_s: float) -> None:
    """A slow answer does not lengthen the time others were promised."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        first.line.delay_s = sent_ago_s / 2  # a get and a create
        await until(lambda: first.is_open)
        left_s = first.elector.guard._deadline - world.clock.monotonic()

        assert left_s == pytest.approx(10 - sent_ago_s, abs=0.02)

    play(story)


def test_wrong_wall_clocks_do_not_matter() -> None:
    """A candidate whose clock is a day ahead takes no lease that is being renewed."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        await until(lambda: first.is_open)
        ahead = Candidate(world, "ahead", VirtualClock(EPOCH_S + 86_400))
        behind = Candidate(world, "behind", VirtualClock(EPOCH_S - 86_400))
        await asyncio.sleep(300)

        assert first.is_open
        assert not ahead.led
        assert not behind.led

    play(story)


def test_orderly_end_hands_over_at_once() -> None:
    """A leader that is stopped keeps the lease while its work ends, then gives it up."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        await until(lambda: first.is_open)
        second = Candidate(world, "second")
        await asyncio.sleep(5)
        first.task.cancel()
        await asyncio.gather(first.task, return_exceptions=True)
        released = world.clock.monotonic()
        assert (await world.user.get(LEASES, LEASE)).spec.holder_identity == ""
        await until(lambda: bool(second.led))

        assert world.clock.monotonic() - released < 5

    play(story)


def test_lease_is_renewed_while_the_work_drains() -> None:
    """Work that takes long to end is still protected while it ends."""

    async def story(world: World) -> None:
        elector = LeaderElector(
            world.line("slow"), LEASE, "slow", clock=world.clock, random=world.random
        )
        open_at_end: list[bool] = []

        async def lead() -> None:
            try:
                await asyncio.sleep(1e9)
            finally:
                await asyncio.sleep(30)
                open_at_end.append(elector.guard.is_open)

        task = asyncio.create_task(elector.run(lead))
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert open_at_end == [True]
        assert not elector.guard.is_open

    play(story)


def test_lost_answer_to_a_renewal_is_recovered_from() -> None:
    """A renewal that happened without our knowing is found by reading, and leading goes on."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        await until(lambda: first.is_open)
        first.line.fail_after["update"] = [OutcomeUnknownError("lost"), failure(500)]
        await asyncio.sleep(60)

        assert first.is_open
        assert len(first.led) == 1

    play(story)


def test_lease_taken_by_hand_closes_the_guard_at_once() -> None:
    """Whoever sees another holder does not wait for its own deadline."""

    async def story(world: World) -> None:
        first = Candidate(world, "first")
        await until(lambda: first.is_open)
        lease = await world.user.get(LEASES.untyped(), LEASE)
        lease["spec"]["holderIdentity"] = "somebody"
        await world.user.update(LEASES.untyped(), lease)
        await until(lambda: not first.is_open)

        assert world.clock.monotonic() < 6
        with pytest.raises(LeadershipLostError):
            await first.task

    play(story)


def test_work_that_returns_or_fails_ends_leading() -> None:
    """When the work is over so is leadership, and its failure is not lost."""

    async def story(world: World) -> None:
        async def fine() -> None: ...

        async def broken() -> None:
            raise ZeroDivisionError

        for lead in (fine, broken):
            elector = LeaderElector(
                world.line(), LEASE, lead.__name__, clock=world.clock, random=world.random
            )
            if lead is fine:
                await elector.run(lead)
            else:
                with pytest.raises(ZeroDivisionError):
                    await elector.run(lead)
            assert (await world.user.get(LEASES, LEASE)).spec.holder_identity == ""

    play(story)


def test_times_must_leave_room_for_a_hand_over() -> None:
    """A leader that may write as long as its lease lasts could overlap with its successor."""
    with pytest.raises(ValueError, match="must fall"):
        LeaseTimes(duration_s=10, renew_deadline_s=10)
