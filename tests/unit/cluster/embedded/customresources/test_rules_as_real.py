"""Rules are accepted and evaluated as kube-apiserver did."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.customresources.rule_checks import schema_errors
from swell.cluster.embedded.customresources.rule_types import converter_of, type_of
from swell.cluster.embedded.customresources.rules import RuleBudget, compile_rule
from swell.schema.pruning import Pruning, compile_pruner
from tests.unit.cluster.embedded.server import answers

RULES = answers("rules")
DEFINITIONS = answers("definitions")
# Estimated differently: sizes of a list that is written out, and of a format's arguments.
DIFFERENT = ("['b','a'].isSorted()", "'%s'.format([]) == 'a'")


def _schema(fields: Body, raw: Body) -> Body:
    inner = {"type": "object", "properties": fields, "x-kubernetes-validations": [raw]}
    return {"type": "object", "properties": {"spec": inner}}


def _is_accepted(schema: Body) -> bool:
    return not schema_errors(schema, "", has_status=False)


@pytest.mark.parametrize(
    "question",
    [q for q in RULES["questions"] if q["rule"] not in DIFFERENT],
    ids=lambda q: q["rule"],
)
def test_rule_as_the_real_server(question: dict[str, Any]) -> None:
    """The same rules compile, and give the same answer for the same value."""
    fields = RULES["fields"]

    assert _is_accepted(_schema(fields, {"rule": question["rule"]})) == question["accepted"]
    if "holds" not in question:
        return
    schema: Body = {"type": "object", "properties": fields}
    shape, convert, type_ = (
        compile_pruner(schema, metadata=lambda value, _path, _found: value),
        converter_of(schema),
        type_of(schema),
    )
    assert shape is not None
    assert convert is not None
    assert type_ is not None
    value = convert(shape(RULES["value"], None, Pruning()))
    rule = compile_rule({"rule": question["rule"]}, type_)
    assert (rule.failure(value, None, RuleBudget()) is None) == question["holds"]


@pytest.mark.parametrize("question", DEFINITIONS["questions"], ids=lambda q: str(q)[:80])
def test_definition_as_the_real_server(question: dict[str, Any]) -> None:
    """The same schemas, and the same rules over them, are accepted."""
    schema = question.get("schema") or _schema(DEFINITIONS["fields"], question["rule"])

    assert _is_accepted(schema) == question["accepted"]
