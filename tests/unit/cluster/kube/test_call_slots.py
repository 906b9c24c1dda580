"""Who may call when only so many may at a time."""

from __future__ import annotations

import asyncio

import pytest

from swell.cluster.kube.pool import CallSlots
from swell.runtime.errors import UnreachableError


def test_as_many_as_there_are_slots_and_then_first_come_first_served() -> None:
    """Nobody overtakes, and no more than allowed are under way."""
    order: list[int] = []
    n_now = n_most = 0

    async def call(slots: CallSlots, number: int) -> None:
        nonlocal n_now, n_most
        await slots.take()
        order.append(number)
        n_now += 1
        n_most = max(n_most, n_now)
        await asyncio.sleep(0)
        n_now -= 1
        slots.give_back()

    async def main() -> None:
        slots = CallSlots(2, patience_s=5.0)
        await asyncio.gather(*(call(slots, number) for number in range(7)))

    asyncio.run(main())

    assert order == list(range(7))
    assert n_most == 2


def test_slot_given_to_somebody_who_gave_up_goes_to_the_next() -> None:
    """Before it is his, or in the same moment: none is lost."""

    async def main() -> None:
        slots = CallSlots(1, patience_s=5.0)
        await slots.take()
        early, late, last = (asyncio.create_task(slots.take()) for _ in range(3))
        await asyncio.sleep(0)
        early.cancel()
        await asyncio.sleep(0)
        slots.give_back()
        late.cancel()
        async with asyncio.timeout(1.0):
            await last
        assert [early.cancelled(), late.cancelled()] == [True, True]
        slots.give_back()
        await slots.take()

    asyncio.run(main())


def test_call_that_waits_too_long_fails() -> None:
    """At the latest when a call ends, and calls do end."""

    async def main() -> None:
        slots = CallSlots(1, patience_s=0.01)
        await slots.take()
        waiting = asyncio.create_task(slots.take())
        await asyncio.sleep(0.05)
        slots.give_back()
        with pytest.raises(UnreachableError):
            await waiting
        await slots.take()  # and the slot is free

    asyncio.run(main())
