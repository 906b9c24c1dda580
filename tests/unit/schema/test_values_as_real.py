"""Values of custom resources are kept, changed and refused as a real server did."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swell.cluster.embedded.customresources.kinds import CustomRules
from swell.cluster.embedded.registry import WriteContext
from tests.unit.cluster.embedded.server import answers

CUSTOM = answers("custom")
RULES = CustomRules(CUSTOM["schema"], has_status=False)


def _a_context() -> WriteContext:
    return WriteContext(verb="create", now=0.0, read=lambda _collection, _key: None)


@pytest.mark.parametrize("question", CUSTOM["questions"], ids=lambda q: str(q["spec"])[:60])
def test_value_as_the_real_server(question: dict[str, Any]) -> None:
    """The same spec is stored, or refused with the same causes."""
    body = {
        "apiVersion": "e.x/v1",
        "kind": "X",
        "metadata": {"name": "x"},
        "spec": question["spec"],
    }

    if question["status"] == 400:
        with pytest.raises(Exception, match="cannot be read"):
            RULES.shape(copy.deepcopy(body), _a_context())
        return
    shaped = RULES.shape(copy.deepcopy(body), _a_context())
    errors = RULES.validate(shaped, None, _a_context())

    found = sorted({(error.field, error.reason) for error in errors if error.field != "<nil>"})
    assert [list(pair) for pair in found] == question["causes"]
    assert bool(errors) == (question["status"] == 422)
    if not errors:
        assert shaped["spec"] == question["stored"]
