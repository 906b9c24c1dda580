"""The work queue under any mix of additions, delays, failures and workers."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from swell.api.backoff import Backoff
from swell.runtime.queue import QueueClosedError, QueueOptions, WorkQueue
from swell.sim.loop import VirtualClock, run
from tests.unit.runtime.world import held_keys

KEYS = "abc"
# What is done to a key, and how long to wait before the next step.
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "later", "soon"]),
        st.sampled_from(KEYS),
        st.sampled_from([0.0, 0.3, 1.0, 4.0]),
    ),
    max_size=40,
)
DELAYS_S = {"add": 0.0, "later": 7.0, "soon": 0.5}


@settings(max_examples=200, deadline=None)
@given(steps, st.integers(1, 3), st.lists(st.booleans(), max_size=20))
def test_every_addition_is_followed_by_work(
    plan: list[tuple[str, str, float]], n_workers: int, failing: list[bool]
) -> None:
    """A key is worked on by one at a time, and at least once after each addition, in time."""

    async def main() -> None:
        clock = VirtualClock()
        options = QueueOptions(backoff=Backoff(0.1, 1.0))
        queue = WorkQueue[str](clock=clock, random=Random(1), options=options)
        outcomes = iter(failing)
        busy: set[str] = set()
        begun: list[tuple[str, float]] = []

        async def worker() -> None:
            while True:
                key = await queue.get()
                assert key not in busy
                busy.add(key)
                begun.append((key, clock.monotonic()))
                await asyncio.sleep(0.7)
                busy.remove(key)
                if next(outcomes, False):
                    queue.retry(key)
                else:
                    queue.forget(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(n_workers)]
        added: list[tuple[str, float]] = []
        for kind, key, pause_s in plan:
            assert queue.add_after(key, DELAYS_S[kind])
            added.append((key, clock.monotonic()))
            await asyncio.sleep(pause_s)
        await asyncio.sleep(60)

        for key, at in added:
            assert any(other == key and began >= at for other, began in begun)
        assert held_keys(queue) == set()
        queue.close()
        for end in await asyncio.gather(*workers, return_exceptions=True):
            assert isinstance(end, QueueClosedError)

    run(main())
