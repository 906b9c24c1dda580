"""Services start and stop in order, and one that fails ends the program."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from swell.runtime.clock import SystemClock
from swell.runtime.manager import Bug, Manager, ServiceFailedError, contain, contain_call
from swell.sim.loop import VirtualClock, run


async def forever() -> None:
    await asyncio.sleep(1e9)


def test_services_stop_in_reverse_order_and_are_awaited() -> None:
    """Who started last may depend on those before, so it is ended first, and fully."""

    async def main() -> list[str]:
        manager = Manager(clock=VirtualClock())
        log: list[str] = []

        def service(name: str) -> None:
            async def work() -> None:
                log.append(f"{name} starts")
                try:
                    await forever()
                finally:
                    await asyncio.sleep(1)
                    log.append(f"{name} ends")

            manager.add(name, work)

        for name in ("informer", "controller"):
            service(name)
        asyncio.get_running_loop().call_later(5, manager.stop)
        await manager.run()
        return log

    assert run(main()) == [
        "informer starts",
        "controller starts",
        "controller ends",
        "informer ends",
    ]


def test_service_with_a_stop_drains_within_the_deadline() -> None:
    """A service that can finish its work is asked to; one that takes too long is cut short."""

    async def main() -> tuple[list[str], float]:
        clock = VirtualClock()
        manager = Manager(clock=clock, drain_s=20)
        log: list[str] = []
        asked = asyncio.Event()

        async def work(name: str, takes_s: float) -> None:
            await asked.wait()
            await asyncio.sleep(takes_s)
            log.append(name)

        manager.add("slow", lambda: work("slow", 100), asked.set)
        manager.add("quick", lambda: work("quick", 5), asked.set)
        asyncio.get_running_loop().call_later(5, manager.stop)
        await manager.run()
        return log, clock.monotonic()

    assert run(main()) == (["quick"], 25)


@pytest.mark.parametrize("fails", [True, False])
def test_end_of_one_service_ends_the_program(fails: bool) -> None:
    """Half a program is worse than none: the others are stopped and the failure is reported."""

    async def main() -> list[str]:
        manager = Manager(clock=VirtualClock())
        log: list[str] = []

        async def short() -> None:
            await asyncio.sleep(3)
            if fails:
                raise ZeroDivisionError

        async def other() -> None:
            try:
                await forever()
            finally:
                log.append("other ended")

        manager.add("other", other)
        manager.add("short", short)
        with pytest.raises(ServiceFailedError, match="short"):
            await manager.run()
        return log

    assert run(main()) == ["other ended"]


def test_service_that_ignores_cancellation_does_not_hang_the_shutdown() -> None:
    """The end of the process is not in the hands of its worst task."""

    async def main() -> float:
        clock = VirtualClock()
        manager = Manager(clock=clock, drain_s=10)

        async def stubborn() -> None:
            for _ in range(2):
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    continue

        manager.add("stubborn", stubborn)
        asyncio.get_running_loop().call_later(1, manager.stop)
        await manager.run()
        return clock.monotonic()

    assert run(main()) == pytest.approx(11)


def test_cancelled_manager_still_stops_its_services() -> None:
    """A manager inside another, as under leader election, leaves no task behind."""

    async def main() -> list[str]:
        manager = Manager(clock=VirtualClock())
        log: list[str] = []

        async def work() -> None:
            try:
                await forever()
            finally:
                log.append("ended")

        manager.add("work", work)
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return log

    assert run(main()) == ["ended"]


def test_signal_begins_an_orderly_shutdown() -> None:
    """SIGTERM is how a kubelet says goodbye."""

    async def main() -> None:
        manager = Manager(clock=SystemClock())
        running = asyncio.Event()

        async def work() -> None:
            running.set()
            await forever()

        manager.add("work", work)
        task = asyncio.create_task(manager.run(handle_signals=True))
        await running.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 5)

    asyncio.run(main())


def test_contain_turns_an_unforeseen_exception_into_a_value() -> None:
    """Those who must go on with other work get the bug, its trace, and no exception."""

    async def fails() -> int:
        raise ZeroDivisionError("story")

    async def works() -> int:
        return 3

    bug = run(contain(fails()))
    assert isinstance(bug, Bug)
    assert "ZeroDivisionError: story" in bug.trace
    assert run(contain(works())) == 3
    assert isinstance(contain_call(lambda: 1 // 0), Bug)
