"""Waits grow, stay below their cap, and differ by the randomness that they are given."""

from __future__ import annotations

from random import Random

from swell.api.backoff import Backoff


def test_backoff_doubles_up_to_its_cap() -> None:
    """Each failure doubles the wait until the cap, however many there are."""
    backoff = Backoff(base_s=1, cap_s=10)

    assert [backoff.full_s(n) for n in (0, 1, 2, 3, 4, 5, 10_000)] == [0, 1, 2, 4, 8, 10, 10]


def test_backoff_jitter_stays_between_half_and_full() -> None:
    """Chance shortens a wait, by half at most, and never lengthens it."""
    backoff = Backoff(base_s=1, cap_s=10)
    random = Random(1)
    drawn = [backoff.jittered_s(3, random.random()) for _ in range(200)]

    assert 2 <= min(drawn) < 2.2
    assert 3.8 < max(drawn) <= 4
