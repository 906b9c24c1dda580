"""Rules that could cost too much are refused when a definition is written."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.customresources.rule_checks import schema_errors


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
    """The cost of a rule is estimated from the bounds of the values it reads."""
    rule = {"rule": "self.matches('^[a-z]+([-a-z0-9]*[a-z0-9])?$')"}
    item = {"type": "string", **text_bounds, "x-kubernetes-validations": [rule]}
    errors = schema_errors(a_list(list_bounds, item), "", has_status=False)

    assert bool(errors) == bool(n_errors)
    assert all(error.reason == "FieldValueForbidden" for error in errors)
