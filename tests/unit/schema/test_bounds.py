"""Checks of hostile schemas and values end, and say what was too much."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.schema.field_errors import FieldError
from swell.schema.pruning import (
    FILLED_BYTES_MAX,
    FilledTooMuchError,
    Pruning,
    compile_pruner,
)
from swell.schema.schema_defaults import default_errors
from swell.schema.values import ERRORS_MAX, MISSING, compile_values


class CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ("n_compared",)

    def __init__(self, text: str) -> None:
        del text
        self.n_compared = 0

    def __eq__(self, other: object) -> bool:
        self.n_compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def _errors(schema: Body, value: object) -> list[FieldError]:
    check, errors = compile_values(schema), list[FieldError]()
    check(value, MISSING, None, errors)
    return errors


def test_alternatives_have_a_budget() -> None:
    """A list of n values and m alternatives for each would be compared n times m times."""
    items = {"anyOf": [{"minimum": n} for n in range(10_000, 15_000)]}
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": items}}}
    errors = _errors(schema, {"l": list(range(9_000))})

    assert "too many comparisons" in errors[-1].message


def test_alternatives_of_whole_lists_share_the_budget() -> None:
    inner = {"properties": {"l": {"items": {"maximum": 1}}}}
    schema = {"type": "object", "anyOf": [inner] * 3_000}
    errors = _errors(schema, {"l": [2] * 5_000})

    assert "too many comparisons" in errors[-1].message


def test_few_alternatives_are_all_compared() -> None:
    items = {"anyOf": [{"minimum": 5}, {"maximum": 3}]}
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": items}}}
    errors = _errors(schema, {"l": [1, 9, 4] * 5_000})

    assert not any("too many comparisons" in error.message for error in errors)
    assert errors


def test_errors_are_bounded() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    errors = _errors(schema, {f"k{n}": "x" for n in range(100_000)})

    assert ERRORS_MAX < len(errors) <= 2 * ERRORS_MAX


def test_long_enumerations_are_looked_up() -> None:
    allowed = [CountedText(f"v{n}") for n in range(5_000)]
    schema = {"type": "array", "items": {"type": "string", "enum": allowed}}
    check, errors = compile_values(schema), list[FieldError]()
    before = sum(one.n_compared for one in allowed)
    check(["v4999"], MISSING, None, errors)

    assert errors == []
    assert sum(one.n_compared for one in allowed) - before < 10


def test_status_lists_the_first_errors_and_counts_the_others() -> None:
    errors = [FieldError("FieldValueInvalid", f"a[{n}]", "Invalid value: 1") for n in range(5_000)]
    refused = refusals.invalid("Pod", "", "p", errors)

    assert len(refused.status.message) < 100_000
    assert "4,000 further errors are not listed" in refused.status.message


def _filled(schema: Body, value: object) -> object:
    prune = compile_pruner(schema, metadata=lambda value, *_: value)
    assert prune is not None
    return prune(value, None, Pruning())


LARGE = {"type": "string", "default": "x" * (FILLED_BYTES_MAX // 4)}


@pytest.mark.parametrize(
    ("schema", "one", "of_one"),
    [
        ({"type": "array", "items": LARGE}, None, LARGE["default"]),
        (
            {"type": "array", "items": {"type": "object", "properties": {"d": LARGE}}},
            {},
            {"d": LARGE["default"]},
        ),
    ],
)
def test_defaults_have_a_budget(schema: Body, one: object, of_one: object) -> None:
    """A body of some kilobytes would take gigabytes with its defaults."""
    assert _filled(schema, [one] * 3) == [of_one] * 3

    with pytest.raises(FilledTooMuchError):
        _filled(schema, [one] * 9_000)


def test_defaults_of_defaults_have_a_budget() -> None:
    """A default that is filled with those of its parts is refused with the definition."""
    items = {"type": "object", "properties": {"d": LARGE}}
    listed = {"type": "array", "items": items, "default": [{}] * 9_000}
    schema = {"type": "object", "properties": {"l": listed}}

    (error,) = default_errors(schema, "spec", lambda *_: [])
    assert error.field == "spec.properties[l].default"
    assert "outgrow" in error.message
    # One that is stored already is not compiled anew at every object.
    with pytest.raises(FilledTooMuchError):
        _filled(schema, {})


def test_defaults_are_not_shared() -> None:
    """Every object may change its own."""
    part = {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": "b"}}
    items = {"type": "object", "properties": {"d": part}}
    filled: Any = _filled({"type": "array", "items": items}, [{}, {}])

    assert filled == [{"d": {"a": "b"}}] * 2
    assert filled[0]["d"] is not filled[1]["d"]
