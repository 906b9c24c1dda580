"""Long work leaves room for others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from swell.cluster.embedded.slices import AT_ONCE, take_all


def test_others_run_between_slices() -> None:
    """Another task gets its turn after each slice, and all steps are taken."""

    async def story() -> list[int]:
        taken: list[int] = []
        turns: list[int] = []

        def steps() -> Iterator[None]:
            for n in range(2 * AT_ONCE + 1):
                taken.append(n)
                yield

        async def other() -> None:
            while True:
                turns.append(len(taken))
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await take_all(steps())
        task.cancel()
        return turns

    assert asyncio.run(story()) == [AT_ONCE, 2 * AT_ONCE]
