"""Shrinking keeps what is needed and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from swell.sim.campaign.trial import shrink


@given(st.integers(1, 60), st.sets(st.integers(0, 59), max_size=5))
def test_shrink_finds_exactly_the_needed_items(size: int, needed: set[int]) -> None:
    """When failure needs certain items, these remain, in order."""
    wanted = sorted(item for item in needed if item < size)

    def fails(items: Sequence[int]) -> bool:
        return set(wanted) <= set(items)

    assert shrink(range(size), fails) == wanted


def test_shrink_result_cannot_lose_one_more() -> None:
    """Also where several subsets would do, no single item of the result is superfluous."""

    def fails(items: Sequence[int]) -> bool:
        return sum(items) >= 40

    best = shrink(range(20), fails)

    assert fails(best)
    assert not any(fails(best[:i] + best[i + 1 :]) for i in range(len(best)))


def test_shrink_stops_after_its_tries() -> None:
    """What is found by then is returned, and still fails."""
    tries = 0

    def fails(items: Sequence[int]) -> bool:
        nonlocal tries
        tries += 1
        return 0 in items and 99 in items

    best = shrink(range(100), fails, tries_max=3)

    assert {0, 99} <= set(best)
    assert tries <= 4
