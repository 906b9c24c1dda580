"""Long work on the event loop, done in slices between which requests are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

AT_ONCE = 100  # a step is a write of one object, less than 0.1 ms


async def take_all(steps: Iterator[object]) -> None:
    """Take all steps, and let others have the loop after each slice of them."""
    for n, _ in enumerate(steps, 1):
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)
