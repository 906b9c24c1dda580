"""The virtual-time loop: time jumps, deadlocks are found, frozen processes do not run."""

from __future__ import annotations

import asyncio
import time

import pytest

from swell.sim.loop import (
    SCOPE,
    DeadlockError,
    LivelockError,
    UnhandledError,
    VirtualClock,
    VirtualLoop,
    run,
)


def test_sleep_advances_virtual_time_only() -> None:
    """Waiting a virtual day takes no real time and moves both clocks by a day."""

    async def main() -> tuple[float, float]:
        clock = VirtualClock()
        wall, steady = clock.now(), clock.monotonic()
        await clock.sleep(86_400)
        return clock.now() - wall, clock.monotonic() - steady

    assert run(main()) == (86_400, 86_400)


def test_wall_clock_jumps_but_monotonic_does_not() -> None:
    """A jump of the wall clock leaves waiting and measuring alone."""

    async def main() -> None:
        clock = VirtualClock()
        wall = clock.now()
        clock.jump(-3600)
        await clock.sleep(1)

        assert clock.now() == wall - 3599
        assert clock.monotonic() == 1

    run(main())


def test_deadlock_names_who_waits() -> None:
    """When nothing can ever happen again, that is an error, not a hang."""

    async def main() -> None:
        asyncio.current_task().set_name("waiter")  # type: ignore[union-attr]
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError) as caught:
        run(main())

    assert caught.value.waiting == ["waiter"]


def test_livelock_is_found() -> None:
    """Busy waiting without time passing is an error, not a hang."""

    def spin() -> None:
        asyncio.get_running_loop().call_soon(spin)

    async def main() -> None:
        spin()
        await asyncio.sleep(1)

    with pytest.raises(LivelockError):
        run(main())


def test_remaining_tasks_are_cancelled_in_order_of_creation() -> None:
    """What main leaves behind ends, in an order that does not depend on addresses."""
    ended: list[int] = []

    async def linger(index: int) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            ended.append(index)

    async def main() -> None:
        tasks = [asyncio.create_task(linger(i)) for i in range(200)]
        await asyncio.sleep(1)
        assert len(tasks) == 200

    run(main())

    assert ended == list(range(200))


def test_failure_nobody_awaits_is_raised() -> None:
    """A failed callback cannot go unnoticed."""

    async def main() -> None:
        def fail() -> None:
            raise ValueError("lost")

        asyncio.get_running_loop().call_later(1, fail)
        await asyncio.sleep(2)

    with pytest.raises(UnhandledError, match="lost"):
        run(main())


def test_threads_are_refused() -> None:
    """Threads would bring real time back in."""

    async def main() -> None:
        await asyncio.to_thread(time.time)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main())


def test_frozen_scope_does_not_run_until_thawed() -> None:
    """A frozen process does nothing; once thawed it finds its timers expired."""
    ticks: list[tuple[str, float]] = []

    async def tick(scope: str) -> None:
        SCOPE.set(scope)
        for _ in range(4):
            await asyncio.sleep(1)
            ticks.append((scope, asyncio.get_running_loop().time()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        both = [asyncio.create_task(tick("a")), asyncio.create_task(tick("b"))]
        await asyncio.sleep(1.5)
        loop.freeze("a")
        await asyncio.sleep(5)
        loop.thaw("a")
        await asyncio.gather(*both)

    run(main())

    assert [at for scope, at in ticks if scope == "a"] == [1, 6.5, 7.5, 8.5]
    assert [at for scope, at in ticks if scope == "b"] == [1, 2, 3, 4]
