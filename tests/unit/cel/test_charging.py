"""The cost of evaluations at run time: what is read, looped over and produced."""

from __future__ import annotations

import pytest

from swell.cel import CostExceededError, EvaluationError, compile_expression
from swell.cel.types import DYN, INT, STRING, list_of

VARIABLES = {"s": STRING, "l": list_of(INT), "d": DYN}
VALUES = ("x" * 1_000_000, list(range(100_000)), {"a": [1]})


@pytest.mark.parametrize(
    "text",
    [
        "[s]" + ".map(x, x + x)" * 29 + ".size() > 0",
        "[l]" + ".map(x, x + x)" * 29 + ".size() > 0",
        "[l]" + ".map(x, [dyn(x), dyn(x)])" * 29 + " == d",
        "l.map(x, l).size() > 0",
        "l.map(x, {'a': l}).size() > 0",
        "l.all(x, l.all(y, x + y >= 0))",
        "l.all(x, l == l)",
        "l.distinct().size() > 0",
        "l.all(x, (s + 'a') == s || true)",
    ],
)
def test_expensive_evaluations_end(text: str) -> None:
    with pytest.raises(CostExceededError):
        compile_expression(text, VARIABLES).evaluate(*VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "timestamp('9999-12-31T23:59:59Z') + duration('99999h') > timestamp(0)",
        "'%.999999999f'.format([1.0]) == ''",
        "{dyn([1]): 1}.size() > 0",
        "dyn([1]) in {'a': 1}",
        "[s, s, s, s, s, s, s, s, s, s, s].join().size() > 0",
    ],
)
def test_odd_values_are_errors_of_the_evaluation(text: str) -> None:
    with pytest.raises(EvaluationError):
        compile_expression(text, VARIABLES).evaluate(*VALUES)


def test_cost_is_told() -> None:
    cheap = compile_expression("l.all(x, x >= 0)", VARIABLES)

    assert cheap.measured(1_000_000, *VALUES) == (True, 400_000)
    with pytest.raises(CostExceededError):
        cheap.measured(1_000, *VALUES)
