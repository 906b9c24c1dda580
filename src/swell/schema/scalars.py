"""Checks of single values: their type, and the rules of a schema for strings and numbers."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError, Path, render
from swell.schema.formats import format_check
from swell.schema.patterns import PatternError, searcher

INT_OR_STRING = "x-kubernetes-int-or-string"
INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

Errors: TypeAlias = list[FieldError]
ENUM_SHOWN_MAX = 200  # values that the error about a wrong one lists
# (value, its path, errors found)
Test: TypeAlias = Callable[[object, Path, Errors], None]


JSON_TYPES: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def type_test(schema: Body) -> Test | None:
    """The test of a value's type; None when the schema states none."""
    wanted = ("integer", "string") if schema.get(INT_OR_STRING) else (schema.get("type"),)
    if wanted == (None,):
        return None
    shown = ",".join(str(name) for name in wanted)

    def test(value: object, path: Path, errors: Errors) -> None:
        found = JSON_TYPES[type(value)]
        if found in wanted or (found == "integer" and "number" in wanted):
            return
        # JSON has one kind of number: 1.0 is an integer.
        if isinstance(value, float) and value.is_integer() and "integer" in wanted:
            return
        text = render(path)
        detail = f'{text} in body must be of type {shown}: "{found}"'
        errors.append(field_errors.type_invalid(text, value, detail))

    return test


def scalar_tests(schema: Body) -> list[Test]:
    """The tests of a schema for strings and numbers; each passes values of other types."""
    tests: list[Test] = []
    if schema.get("enum"):
        tests.append(_enum_test(schema["enum"]))
    kinds = ((str, STRING_RULES), (str, FORMAT_RULE), ((int, float), NUMBER_RULES))
    for types, compilers in kinds:
        made = [make(schema) for word, make in compilers.items() if schema.get(word) is not None]
        rules = [rule for rule in made if rule is not None]
        if compilers is STRING_RULES and rules:
            rules = [_first_of(rules)]
        tests += [_only(types, rule) for rule in rules]
    return tests


def _first_of(rules: list[Test]) -> Test:
    """A test that reports the first broken rule alone, as a real server does of texts."""

    def test(value: object, path: Path, errors: Errors) -> None:
        n_before = len(errors)
        for rule in rules:
            rule(value, path, errors)
            if len(errors) > n_before:
                return

    return test


def _only(kinds: type | tuple[type, ...], rule: Test) -> Test:
    def test(value: object, path: Path, errors: Errors) -> None:
        # A bool is an int in Python, but no number in JSON.
        if isinstance(value, kinds) and not isinstance(value, bool):
            rule(value, path, errors)

    return test


def _enum_test(allowed: list[object]) -> Test:
    # A set, because both the allowed values and those to be tested may be many.
    plain = {item for item in allowed if not isinstance(item, dict | list)}
    other = [item for item in allowed if isinstance(item, dict | list)]
    whole = {item for item in plain if type(item) is int}

    def test(value: object, path: Path, errors: Errors) -> None:
        if value in other if isinstance(value, dict | list) else value in plain:
            return
        # Go converts a fraction to the type of the allowed value, and so cuts it.
        if isinstance(value, float) and math.isfinite(value) and math.trunc(value) in whole:
            return
        some = allowed[:ENUM_SHOWN_MAX]
        shown = [item if isinstance(item, str) else json.dumps(item) for item in some]
        if len(allowed) > ENUM_SHOWN_MAX:
            shown.append(f"{len(allowed) - ENUM_SHOWN_MAX:,} more")
        errors.append(field_errors.not_supported(render(path), value, shown))

    return test


def _must(holds: Callable[[object], bool], detail: str) -> Test:
    def test(value: object, path: Path, errors: Errors) -> None:
        if not holds(value):
            text = render(path)
            errors.append(field_errors.invalid(text, value, f"{text} in body {detail}"))

    return test


def _max_length(schema: Body) -> Test:
    limit = schema["maxLength"]

    def test(value: object, path: Path, errors: Errors) -> None:
        if len(str(value)) > limit:
            errors.append(field_errors.too_long(render(path), limit))

    return test


def _min_length(schema: Body) -> Test:
    limit = schema["minLength"]
    return _must(lambda value: len(str(value)) >= limit, f"should be at least {limit} chars long")


def _pattern(schema: Body) -> Test | None:
    try:
        found = searcher(schema["pattern"])
    except PatternError:
        # Such a definition is refused when it is written; one stored earlier is served without it.
        return None
    return _must(lambda value: found(str(value)), f"should match '{schema['pattern']}'")


def _format(schema: Body) -> Test | None:
    has_format = format_check(schema["format"])
    if has_format is None:
        return None

    def test(value: object, path: Path, errors: Errors) -> None:
        if not has_format(str(value)):
            text = render(path)
            detail = f"{text} in body must be of type {schema['format']}: {json.dumps(value)}"
            errors.append(field_errors.type_invalid(text, value, detail))

    return test


def _maximum(schema: Body) -> Test:
    limit = schema["maximum"]
    if schema.get("exclusiveMaximum"):
        return _bounded(schema, "maximum", operator.lt, f"should be less than {limit}")
    detail = f"should be less than or equal to {limit}"
    return _bounded(schema, "maximum", operator.le, detail)


def _minimum(schema: Body) -> Test:
    limit = schema["minimum"]
    if schema.get("exclusiveMinimum"):
        return _bounded(schema, "minimum", operator.gt, f"should be greater than {limit}")
    detail = f"should be greater than or equal to {limit}"
    return _bounded(schema, "minimum", operator.ge, detail)


def _bounded(schema: Body, word: str, holds: Callable[[Any, Any], bool], detail: str) -> Test:
    """The test of a bound. A real server compares whole numbers with the bound's whole part."""
    limit, odd = schema[word], _odd_limit(schema, word)
    whole = limit if odd else int(limit)

    def is_within(value: object) -> bool:
        return holds(value, whole if isinstance(value, int) else limit)

    return _both(_must(is_within, detail), odd)


def _odd_limit(schema: Body, word: str) -> Test | None:
    """The test of a limit that its own type cannot hold: no value passes it."""
    limit = schema[word]
    low, high = INT_RANGES.get(schema.get("format", ""), INT_RANGES["int64"])
    if schema.get("type") != "integer" or (limit == int(limit) and low <= limit <= high):
        return None

    def test(_value: object, path: Path, errors: Errors) -> None:
        detail = f"The {word} must be of type integer in {render(path)}"
        errors.append(field_errors.invalid(field_errors.NO_FIELD, "", detail))

    return test


def _both(one: Test, other: Test | None) -> Test:
    if other is None:
        return one

    def test(value: object, path: Path, errors: Errors) -> None:
        one(value, path, errors)
        other(value, path, errors)

    return test


def _multiple_of(schema: Body) -> Test:
    # Decimal, because 0.3 is no multiple of 0.1 in binary fractions.
    factor, odd = Decimal(str(schema["multipleOf"])), _odd_limit(schema, "multipleOf")

    def holds(value: object) -> bool:
        # No number is a multiple of nothing; Kubernetes does not refuse such a factor.
        if factor <= 0 or (isinstance(value, float) and not math.isfinite(value)):
            return False
        # A real server compares whole numbers with the factor's whole part.
        if isinstance(value, int) and odd is None:
            return int(factor) != 0 and value % int(factor) == 0
        return Decimal(str(value)) % factor == 0

    return _both(_must(holds, f"should be a multiple of {factor}"), odd)


def _int_range(schema: Body) -> Test | None:
    bounds = INT_RANGES.get(schema["format"]) if schema.get("type") == "integer" else None
    if bounds is None:
        return None
    low, high = bounds

    def test(value: object, path: Path, errors: Errors) -> None:
        if not isinstance(value, (int, float)) or low <= value <= high:
            return
        text, detail = render(path), f"must be of type integer with format {schema['format']}"
        if not -(2**63) <= value < 2**63:  # kube-apiserver could not decode it as an integer
            errors.append(field_errors.type_invalid(text, value, f"{text} in body {detail}"))
        errors.append(
            field_errors.invalid(field_errors.NO_FIELD, "", f"Checked value {detail} in {text}")
        )

    return test


STRING_RULES = {
    "maxLength": _max_length,
    "minLength": _min_length,
    "pattern": _pattern,
}
FORMAT_RULE = {"format": _format}
NUMBER_RULES = {
    "maximum": _maximum,
    "minimum": _minimum,
    "multipleOf": _multiple_of,
    "format": _int_range,
}
