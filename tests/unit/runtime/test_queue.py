"""A key waits at most once, is worked on by one worker, and comes back later after failures."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from swell.api.backoff import Backoff
from swell.runtime.queue import QueueClosedError, QueueOptions, WorkQueue
from swell.sim.loop import VirtualClock, run
from tests.unit.runtime.world import held_keys


def queue(**options: object) -> WorkQueue[str]:
    given = QueueOptions(**options)  # type: ignore[arg-type]
    return WorkQueue(clock=VirtualClock(), random=Random(1), options=given)


def test_key_added_twice_is_got_once() -> None:
    """A key is in the queue at most once."""

    async def main() -> list[str]:
        q = queue()
        for key in ("a", "b", "a"):
            q.add(key)
        got = [await q.get(), await q.get()]
        assert len(q) == 0
        return got

    assert run(main()) == ["a", "b"]


def test_key_added_while_worked_on_comes_again_afterwards() -> None:
    """No two workers have the same key, and no change during the work is lost."""

    async def main() -> None:
        q = queue()
        q.add("a")
        await q.get()
        q.add("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await q.get()
        q.done("a")

        assert await q.get() == "a"

    run(main())


def test_delayed_key_comes_when_due_and_the_shortest_delay_counts() -> None:
    """A key waits for the earliest of its delays and comes once."""

    async def main() -> None:
        q = queue()
        q.add_after("a", 10)
        q.add_after("a", 3)
        q.add_after("a", 7)
        q.add_after("b", 5)
        times = []
        for _ in range(2):
            key = await q.get()
            times.append((key, asyncio.get_running_loop().time()))
            q.done(key)

        assert times == [("a", 3), ("b", 5)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await q.get()

    run(main())


def test_getting_a_key_voids_its_delay() -> None:
    """Whoever works on a key now says anew when to come back."""

    async def main() -> None:
        q = queue()
        q.add_after("a", 10)
        q.add("a")
        q.done(await q.get())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await q.get()

    run(main())


def test_failing_key_backs_off_and_success_resets() -> None:
    """Each failure in a row doubles the delay; a success forgets them."""

    async def main() -> None:
        q = queue(backoff=Backoff(1, 8))
        delays = [q.retry("a") for _ in range(5)]

        assert all(full / 2 <= d <= full for d, full in zip(delays, (1, 2, 4, 8, 8), strict=True))
        assert q.failures("a") == 5
        q.forget("a")
        assert q.retry("a") <= 1

    run(main())


def test_retries_of_all_keys_share_a_bucket() -> None:
    """However many keys fail, retries per second stay bounded once the burst is used up."""

    async def main() -> None:
        q = queue(retries_per_s=10, retry_burst=20, backoff=Backoff(0.001, 0.001))
        delays = [q.retry(str(n)) for n in range(120)]

        assert delays[19] < 0.01
        assert delays[119] == pytest.approx(10)

    run(main())


def test_retry_waits_at_least_as_long_as_asked() -> None:
    """A server's wish to be left alone outweighs a shorter back-off."""

    async def main() -> None:
        assert queue().retry("a", at_least_s=7) == 7

    run(main())


def test_succeeding_keys_leave_nothing_behind() -> None:
    """Memory follows the work at hand: 10,000 finished keys leave no trace."""

    async def main() -> None:
        q = queue()
        for n in range(10_000):
            q.add(str(n))
            q.add_after(str(n), 5)
            key = await q.get()
            q.retry(key)
            q.forget(key)
            q.add(key)
            q.done(key)
            q.done(await q.get())

        assert held_keys(q) == set()
        assert len(q._timeline) < 200

    run(main())


def test_delaying_a_key_again_and_again_costs_nothing() -> None:
    """Neither repeating a delay nor voiding it and asking for the same moment piles anything up."""

    async def main() -> None:
        q = queue()
        for n in range(20_000):
            q.add_after("a", 50)
            if n % 2:
                q.add("a")
                q.done(await q.get())
            assert len(q._timeline) <= 70

        assert held_keys(q) == set()
        q.add_after("a", 50)
        assert await q.get() == "a"

    run(main())


def test_full_queue_refuses_and_counts() -> None:
    """Memory is bounded: what does not fit is refused, and said to be."""

    async def main() -> None:
        q = queue(keys_max=2)

        assert [q.add("a"), q.add_after("b", 5), q.add("c"), q.add("a")] == [1, 1, 0, 1]
        assert q.n_refused == 1

    run(main())


def test_close_lets_ready_keys_finish_and_ends_workers() -> None:
    """After closing, what was ready is still handed out, then every worker is sent home."""

    async def main() -> list[str]:
        q = queue()
        q.add("a")
        q.add_after("later", 5)
        got: list[str] = []

        async def worker() -> None:
            while True:
                key = await q.get()
                await asyncio.sleep(1)
                got.append(key)
                q.done(key)

        tasks = [asyncio.create_task(worker()) for _ in range(3)]
        await asyncio.sleep(0)
        q.close()
        assert not q.add("b")
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, QueueClosedError)
        return got

    assert run(main()) == ["a"]


def test_cancelled_worker_passes_its_wake_up_on() -> None:
    """A key is not stranded because the worker that was to have it went away."""

    async def main() -> str:
        q = queue()
        first = asyncio.create_task(q.get())
        second = asyncio.create_task(q.get())
        await asyncio.sleep(0)
        q.add("a")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        async with asyncio.timeout(1):
            return await second

    assert run(main()) == "a"
