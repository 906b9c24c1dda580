"""No rule that is accepted runs away."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.cel.program import compile_expression
from swell.cel.types import INT, STRING, EvaluationError, list_of
from swell.cluster.embedded.customresources.rule_checks import rule_errors


@pytest.mark.parametrize(
    "rule",
    [
        "self.replace('', self).size() > 0",
        "self.findAll('a').size() > 0",
    ],
)
def test_growth_is_bounded(rule: str) -> None:
    """A text that would grow without measure is an error, not a full memory."""
    program = compile_expression(rule, {"self": STRING.sized(3_000_000)})

    with pytest.raises(EvaluationError, match="limit"):
        program.evaluate("a" * 100_000)


def test_iterations_are_bounded() -> None:
    """Nested loops share one allowance."""
    program = compile_expression("self.all(x, self.all(y, x != y + 9999))", {"self": list_of(INT)})

    with pytest.raises(EvaluationError, match="limit"):
        program.evaluate(list(range(2000)))


def a_list(bounds: Body, item: Body) -> Body:
    spec = {"type": "array", "items": item, **bounds}
    return {"type": "object", "properties": {"spec": spec}}


@pytest.mark.parametrize(
    ("list_bounds", "text_bounds", "n_errors"),
    [({"maxItems": 10}, {"maxLength": 10}, 0), ({}, {"maxLength": 10}, 1), ({}, {}, 2)],
)
def test_unbounded_data_makes_rules_too_expensive(
    list_bounds: Body, text_bounds: Body, n_errors: int
) -> None:
    """What a rule may cost at most is known from the bounds of what it looks at."""
    rule = {"rule": "self.matches('^[a-z]+([-a-z0-9]*[a-z0-9])?$')"}
    item = {"type": "string", **text_bounds, "x-kubernetes-validations": [rule]}
    errors = rule_errors(a_list(list_bounds, item), "")

    assert bool(errors) == bool(n_errors)
    assert all(error.reason == "FieldValueForbidden" for error in errors)
