"""Compares a JSON value with a schema: types, bounds, required, unknown and misspelt fields.

The value may be hostile: no more of it is visited than the schema and its bounds allow. A null
counts as a missing field, as on the API server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from swell.api.schemas.model import Pattern, Schema, SchemaType
from swell.api.schemas.shared import QUANTITY_FORMAT
from swell.api.times import is_date_time
from swell.api.validation.amounts import quantity_problems
from swell.api.validation.hints import choices_hint, fields_hint
from swell.api.validation.problems import UNKNOWN_FIELD, FieldProblem, Steps, show

_TYPE_NAMES = {
    SchemaType.OBJECT: "an object",
    SchemaType.ARRAY: "a list",
    SchemaType.STRING: "a text",
    SchemaType.INTEGER: "a whole number",
    SchemaType.BOOLEAN: "true or false",
    SchemaType.INT_OR_STRING: "a whole number or a text",
}
_HINTS = {
    SchemaType.OBJECT: "write fields as name: value, indented",
    SchemaType.ARRAY: "write items as lines that begin with '- '",
    SchemaType.STRING: "put it in quotes",
    SchemaType.INTEGER: "write digits, without quotes and without a fraction",
    SchemaType.BOOLEAN: "write true or false, without quotes",
    SchemaType.INT_OR_STRING: "write digits, or a text in quotes",
}


def structure_problems(schema: Schema, value: object, steps: Steps = ()) -> Iterator[FieldProblem]:
    """Yields every place where the value differs from the schema."""
    if not _has_type(schema.type, value):
        message = f"must be {_TYPE_NAMES[schema.type]}, is {show(value)}"
        yield FieldProblem(steps, message, _HINTS[schema.type])
    elif isinstance(value, Mapping):
        yield from _object_problems(schema, value, steps)
    elif isinstance(value, list):
        yield from _list_problems(schema, value, steps)
    elif schema.format == QUANTITY_FORMAT:
        yield from quantity_problems(value, steps)
    elif isinstance(value, str):
        yield from _text_problems(schema, value, steps)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _number_problems(schema, value, steps)


def _has_type(type_: SchemaType, value: object) -> bool:
    match type_:
        case SchemaType.ANY:
            return True
        case SchemaType.OBJECT:
            return isinstance(value, Mapping)
        case SchemaType.ARRAY:
            return isinstance(value, list)
        case SchemaType.STRING:
            return isinstance(value, str)
        case SchemaType.BOOLEAN:
            return isinstance(value, bool)
        case SchemaType.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case SchemaType.INT_OR_STRING:
            return isinstance(value, int | str) and not isinstance(value, bool)


def _object_problems(
    schema: Schema, value: Mapping[object, object], steps: Steps
) -> Iterator[FieldProblem]:
    for name in schema.required:
        if value.get(name) is None:
            example = schema.properties[name].example
            hint = f"add it, for example {name}: {example}" if example else f"add {name}:"
            yield FieldProblem((*steps, name), "is required", hint)
    yield from _size_problems(schema, len(value), "fields", steps)
    # A map that is too large is reported once, and its entries are not visited.
    if schema.values is not None and len(value) > (schema.size_max or 0):
        return
    for key, part in value.items():
        if not isinstance(key, str):
            message = f"the key {show(key)} must be a text"
            yield FieldProblem(steps, message, "put it in quotes")
            continue
        expected = schema.properties.get(key, schema.values)
        if expected is None and (schema.reports_unknown or not schema.is_open):
            hint = fields_hint(key, schema.properties)
            yield FieldProblem((*steps, key), UNKNOWN_FIELD, hint)
        elif expected is not None and part is not None:
            yield from structure_problems(expected, part, (*steps, key))


def _list_problems(schema: Schema, value: list[object], steps: Steps) -> Iterator[FieldProblem]:
    yield from _size_problems(schema, len(value), "items", steps)
    if schema.items is None or (schema.size_max is not None and len(value) > schema.size_max):
        return
    seen: dict[tuple[object, ...], int] = {}
    for index, item in enumerate(value):
        yield from structure_problems(schema.items, item, (*steps, index))
        if not schema.map_keys or not isinstance(item, Mapping):
            continue
        identity = tuple(item.get(key) for key in schema.map_keys)
        # Items whose key is wrong have been reported, and may not be hashable.
        if not all(isinstance(part, str) for part in identity):
            continue
        if identity in seen:
            message = f"is the same as in item {seen[identity]}: {show(identity[0])}"
            yield FieldProblem((*steps, index, schema.map_keys[0]), message, "give it another one")
        seen.setdefault(identity, index)


def _text_problems(schema: Schema, value: str, steps: Steps) -> Iterator[FieldProblem]:
    if schema.enum and value not in schema.enum:
        message = f"unsupported value {show(value)}"
        yield FieldProblem(steps, message, choices_hint(value, schema.enum))
    yield from _size_problems(schema, len(value), "characters", steps)
    if schema.format == "date-time" and not is_date_time(value):
        message = f"must be a date with time and zone, is {show(value)}"
        yield FieldProblem(steps, message, "for example 2027-01-01T06:00:00Z")
    # No pattern is run over a text that is too long: a hostile one would take long.
    too_long = schema.size_max is not None and len(value) > schema.size_max
    if schema.pattern is not None and not too_long and not matches(schema.pattern, value):
        message = f"{schema.pattern.requirement}, is {show(value)}"
        yield FieldProblem(steps, message, f"for example {schema.pattern.example}")


def _number_problems(schema: Schema, value: int, steps: Steps) -> Iterator[FieldProblem]:
    low, high = schema.minimum, schema.maximum
    if low is not None and value < low:
        message = f"must be at least {low}, is {show(value)}"
        yield FieldProblem(steps, message, f"write {low} or more")
    if high is not None and value > high:
        message = f"must be at most {high}, is {show(value)}"
        yield FieldProblem(steps, message, f"write {high} or less")


def _size_problems(schema: Schema, size: int, noun: str, steps: Steps) -> Iterator[FieldProblem]:
    low, high = schema.size_min, schema.size_max
    if low is not None and size < low:
        yield FieldProblem(
            steps, f"must have at least {low} {noun}, has {size}", "add what is missing"
        )
    if high is not None and size > high:
        yield FieldProblem(steps, f"must have at most {high} {noun}, has {size}", "make it shorter")


def matches(pattern: Pattern, value: str) -> bool:
    """Whether the whole text matches the pattern."""
    return _compiled(pattern.regex).fullmatch(value) is not None


@lru_cache(maxsize=64)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)
