"""Rules are asked once about the same value, and answer as if they were asked each time."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.cel.types import INT, object_of
from swell.cluster.embedded.customresources.rules import (
    Enforce,
    PassedValues,
    RuleBudget,
    compile_rule,
    compile_rules,
)
from swell.schema.field_errors import FieldError
from swell.schema.values import MISSING


def enforced(*rules: Body) -> Enforce:
    numbers: Body = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    found = compile_rules(
        {"type": "object", "properties": numbers, "x-kubernetes-validations": [*rules]}
    )
    assert found is not None
    return found


def ask(rules: Enforce, value: object, old: object = MISSING) -> tuple[list[FieldError], float]:
    """Returns the errors, and what was spent."""
    errors: list[FieldError] = []
    budget = RuleBudget()
    rules(value, old, None, errors, budget)
    return errors, RuleBudget().left - budget.left


def test_value_that_has_passed_is_not_evaluated_again_and_costs_the_same() -> None:
    """What a rule does not read may change meanwhile."""
    rules = enforced({"rule": "self.a > 0"})
    first = ask(rules, {"a": 1, "b": 1})

    assert first == ask(rules, {"a": 1, "b": 2})
    assert first[1] > 0


def test_value_is_known_by_the_fields_that_rules_read() -> None:
    """What they do not read does not count, and what has not passed is asked about."""
    passed = PassedValues([compile_rule({"rule": "self.a > 0"}, object_of({"a": INT}))])
    passed.note(passed.key_of({"a": 1, "b": 1}, None), 5)
    budget = RuleBudget()

    assert passed.charge(passed.key_of({"a": 1, "b": 2}, {"a": 7}), budget)
    assert not passed.charge(passed.key_of({"a": 2, "b": 1}, None), budget)
    assert RuleBudget().left - budget.left == 5


def test_value_that_breaks_a_rule_is_refused_each_time() -> None:
    """Only what has passed is remembered, also of several rules."""
    rules = enforced({"rule": "self.a > 0"}, {"rule": "self.b > 0"})

    assert not ask(rules, {"a": 1, "b": 1})[0]
    assert [len(ask(rules, {"a": 1, "b": 0})[0]) for _ in range(2)] == [1, 1]
    assert [len(ask(rules, {"a": 0, "b": 0})[0]) for _ in range(2)] == [2, 2]


@pytest.mark.parametrize("same", [1, 1.0])
def test_rule_about_the_old_value_is_asked_about_another_one(same: float) -> None:
    """The same new value may pass after one old value and break the rule after another."""
    rules = enforced({"rule": "self.a >= oldSelf.a"})

    assert not ask(rules, {"a": 1})[0]
    assert not ask(rules, {"a": 1}, {"a": same})[0]
    assert ask(rules, {"a": 1}, {"a": 2})[0]
    assert not ask(rules, {"a": 1}, {"a": 0})[0]


def test_spent_budget_is_told_although_the_value_has_passed() -> None:
    """What an evaluation would have cost has to be there."""
    rules = enforced({"rule": "self.a > 0"})
    _, cost = ask(rules, {"a": 1})
    errors: list[FieldError] = []
    rules({"a": 1}, MISSING, None, errors, RuleBudget(cost / 2))

    assert errors
