"""What the schema fetcher keeps of a schema, and what it leaves out."""

from __future__ import annotations

import pytest

from tools import fetch_builtin_schemas as fetch


def test_compact_drops_prose_at_every_depth() -> None:
    """Descriptions go; a field that happens to be called like one stays."""
    schema: fetch.JsonObject = {
        "description": "prose",
        "type": "object",
        "properties": {"description": {"description": "prose", "type": "string"}},
        "additionalProperties": {"description": "prose", "type": "string", "default": ""},
    }

    assert fetch._compact(schema) == {
        "type": "object",
        "properties": {"description": {"type": "string"}},
        "additionalProperties": {"type": "string", "default": ""},
    }


def test_compact_keeps_a_default_beside_an_unwrapped_reference() -> None:
    """`allOf` around one reference disappears, its neighbours do not."""
    schema: fetch.JsonObject = {"allOf": [{"$ref": "#/components/schemas/a.B"}], "default": {}}

    assert fetch._compact(schema) == {"$ref": "a.B", "default": {}}


def test_compact_keeps_a_real_conjunction() -> None:
    """`allOf` of more than one reference means something and stays."""
    schema: fetch.JsonObject = {"allOf": [{"$ref": "a"}, {"required": ["b"]}]}

    assert fetch._compact(schema) == schema


def test_compact_leaves_values_alone() -> None:
    """A default or an enumeration is a value, whatever its words look like."""
    schema: fetch.JsonObject = {"default": {"description": "kept"}, "enum": ["title"]}

    assert fetch._compact(schema) == schema


def test_reachable_follows_references_round_a_circle() -> None:
    """Only what a root leads to is kept, and a type that contains itself ends the search."""
    definitions: dict[str, fetch.JsonObject] = {
        "a": {"properties": {"x": {"items": {"$ref": "b"}}}},
        "b": {"properties": {"self": {"$ref": "b"}}},
        "c": {"$ref": "a"},
    }

    assert fetch._reachable(definitions, ["a"]) == ["a", "b"]


def test_compact_refuses_what_is_no_schema() -> None:
    """A document of an unknown shape is an error, not an empty schema."""
    with pytest.raises(fetch.FetchError):
        fetch._compact("a string")
