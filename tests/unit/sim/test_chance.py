"""Draws depend on what they are for, and on nothing else."""

from __future__ import annotations

from swell.sim.chance import Chance


def test_draw_depends_on_seed_and_key_alone() -> None:
    """The same key gives the same number, whatever was asked before."""
    first, second = Chance(7), Chance(7)
    second.uniform("something", "else")

    assert first.uniform("site", 3) == second.uniform("site", 3)
    assert Chance(8).uniform("site", 3) != first.uniform("site", 3)
    assert first.uniform("site", 4) != first.uniform("site", 3)


def test_key_parts_do_not_run_together() -> None:
    """("ab", "c") and ("a", "bc") are different keys."""
    chance = Chance(0)

    assert chance.uniform("ab", "c") != chance.uniform("a", "bc")


def test_draws_are_spread_evenly() -> None:
    """Numbers are in [0, 1), bounds are included, options all come up."""
    chance = Chance(1)
    numbers = [chance.uniform("n", i) for i in range(2000)]

    assert all(0 <= number < 1 for number in numbers)
    assert 0.45 < sum(numbers) / len(numbers) < 0.55
    assert {chance.integer(2, 4, i) for i in range(100)} == {2, 3, 4}
    assert {chance.pick("abc", i) for i in range(100)} == set("abc")
    assert all(5 <= chance.between(5, 6, i) < 6 for i in range(100))


def test_generator_is_reproducible() -> None:
    """A component's generator is the same in every run of the seed."""
    assert Chance(3).generator("x").random() == Chance(3).generator("x").random()
    assert Chance(3).generator("x").random() != Chance(3).generator("y").random()
