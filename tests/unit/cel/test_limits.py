"""The work of one evaluation is bounded."""

from __future__ import annotations

import pytest

from swell.cel.program import compile_expression
from swell.cel.types import INT, STRING, EvaluationError, list_of


@pytest.mark.parametrize(
    "rule",
    [
        "self.replace('', self).size() > 0",
        "self.findAll('a').size() > 0",
    ],
)
def test_growth_is_bounded(rule: str) -> None:
    """A string that would grow without bound ends the evaluation with an error."""
    program = compile_expression(rule, {"self": STRING.sized(3_000_000)})

    with pytest.raises(EvaluationError, match="limit"):
        program.evaluate("a" * 100_000)


def test_iterations_are_bounded() -> None:
    """Nested loops share one allowance."""
    program = compile_expression("self.all(x, self.all(y, x != y + 9999))", {"self": list_of(INT)})

    with pytest.raises(EvaluationError, match="limit"):
        program.evaluate(list(range(2000)))
