"""JSON patches: every operation, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cluster.embedded.patching.jsonpatch import JsonPatchError, apply_operations

DOCUMENT = {"a": {"b": 1}, "list": [1, 2, 3], "~/": 5}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/c", "value": 2}, {"a": {"b": 1, "c": 2}}),
        ({"op": "add", "path": "/list/0", "value": 0}, {"list": [0, 1, 2, 3]}),
        ({"op": "add", "path": "/list/-", "value": 4}, {"list": [1, 2, 3, 4]}),
        ({"op": "remove", "path": "/list/-1"}, {"list": [1, 2]}),
        ({"op": "replace", "path": "/a/b", "value": None}, {"a": {"b": None}}),
        ({"op": "replace", "path": "/~0~1", "value": 6}, {"~/": 6}),
        ({"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"op": "copy", "from": "/a", "path": "/c"}, {"c": {"b": 1}}),
        ({"op": "test", "path": "/a/b", "value": 1}, {}),
        ({"op": "test", "path": "/a/b", "value": 1.0}, {}),
        # A missing key of a map reads as null, and an operation without a value has null.
        ({"op": "add", "path": "/a/c"}, {"a": {"b": 1, "c": None}}),
        ({"op": "replace", "path": "/x", "value": 1}, {"x": 1}),
        ({"op": "copy", "from": "/x", "path": "/y"}, {"y": None}),
        ({"op": "test", "path": "/x", "value": None}, {}),
        ({"op": "test", "path": "/x"}, {}),
        # What stands before the first slash is not looked at.
        ({"op": "add", "path": "a/new", "value": 1}, {"new": 1}),
        ({"op": "remove", "path": "/list/+1"}, {"list": [1, 3]}),
        ({"op": "remove", "path": "/list/01"}, {"list": [1, 3]}),
    ],
)
def test_operation_changes_the_document(operation: dict[str, Any], result: dict[str, Any]) -> None:
    """Each operation does what RFC 6902 says, and leaves the given document alone."""
    before = copy.deepcopy(DOCUMENT)

    assert apply_operations(DOCUMENT, [operation]) == {**DOCUMENT, **result}
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "merge", "path": "/a"},
        {"op": "add", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "remove", "path": "/x"},
        {"op": "remove", "path": "/list/3"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/x/y", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "replace", "path": "/list/3", "value": 1},
        {"op": "move", "from": "/a", "path": "/a/b"},
        {"op": "move", "from": "/x", "path": "/y"},
        {"op": "test", "path": "/a/b", "value": 2},
        {"op": "test", "path": "/a/b", "value": True},
        {"op": "add", "path": "/a/b/c", "value": 1},
    ],
)
def test_operation_that_leads_nowhere_is_refused(operation: dict[str, Any]) -> None:
    """A path must lead somewhere, and a test must hold."""
    with pytest.raises(JsonPatchError):
        apply_operations(DOCUMENT, [operation])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(document=st.dictionaries(st.sampled_from("abc"), JSON), value=JSON)
def test_add_then_remove_restores(document: dict[str, Any], value: object) -> None:
    """What was added under a new key and removed again leaves no trace."""
    steps: list[dict[str, Any]] = [
        {"op": "add", "path": "/new~1key", "value": value},
        {"op": "remove", "path": "/new~1key"},
    ]

    assert apply_operations(document, steps) == document


@given(operations=st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), JSON)))
def test_any_patch_is_applied_or_refused(operations: list[dict[str, Any]]) -> None:
    """No patch, however odd, ends in anything but a result or a refusal."""
    try:
        apply_operations(copy.deepcopy(DOCUMENT), operations)
    except JsonPatchError:
        return
