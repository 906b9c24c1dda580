"""What is asked of figures: ratios that say by their size alone whether it is met."""

from __future__ import annotations

import pytest

from bench.__main__ import ratios_of
from bench.budgets import Budget, at_least, at_most


@pytest.mark.parametrize(
    ("budget", "value", "ratio"),
    [
        (at_least(100), 150, 1.5),
        (at_least(100), 50, 0.5),
        (at_most(100), 50, 2),
        (at_most(100), 200, 0.5),
        (at_most(0), 0, 1),
        (at_most(0), 3, 0),
        (at_most(3), 0, float("inf")),
    ],
)
def test_ratio_is_at_least_one_where_the_budget_is_met(
    budget: Budget, value: float, ratio: float
) -> None:
    """Whether more of a figure is better, or less."""
    assert budget.ratio(value) == ratio


def test_only_figures_that_were_measured_have_a_ratio() -> None:
    """Where there is no real API server, its figures are not there."""
    asked = {"a": at_least(2), "b": at_most(2), "c": at_most(1)}

    assert ratios_of({"a": 4, "b": "not built", "d": 1}, asked) == {"a": 2}
