"""The CEL type of a schema, and the conversion of JSON into values of that type.

Sizes follow Kubernetes' estimation, so that the same rules are accepted: a value without a bound is
taken to be as large as one request can carry.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from swell.api.meta import Body
from swell.cel import EvaluationError, conversions
from swell.cel.resolution import escape
from swell.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
    list_of,
    map_of,
    object_of,
)
from swell.schema.pruning import EMBEDDED
from swell.schema.scalars import INT_OR_STRING
from swell.schema.values import LIST_TYPE

# The request size that Kubernetes assumes for its estimates; a string loses its two quotes.
REQUEST_BYTES_MAX = 3 * 1024 * 1024
TEXT_MAX = REQUEST_BYTES_MAX - 2
# The bytes of the smallest JSON value of a type.
SMALLEST = {"boolean": 4, "integer": 1, "number": 1}
# The CEL type of a string format, with the bytes of its smallest and its largest JSON value.
FORMATS: Mapping[str, tuple[CelType, int, int]] = {
    "byte": (BYTES, 2, TEXT_MAX),
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
}
# Fields that rules may read of every whole object, declared or not.
OBJECT_FIELDS: Mapping[str, Body] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def type_of(schema: Body, *, root: bool = False) -> CelType | None:
    """The CEL type of a schema's values; None when rules cannot read them."""
    sized = _sized_type(schema, root=root)
    return sized[0] if sized else None


def n_values_max(schema: Body, *, root: bool = False) -> float:
    """The largest number of values of a schema that fit into one request."""
    sized = _sized_type(schema, root=root)
    return REQUEST_BYTES_MAX // ((sized[1] if sized else 0) + 1)


def _sized_type(schema: Body, *, root: bool = False) -> tuple[CelType, int] | None:
    """The type, and the bytes of its smallest JSON value."""
    if schema.get(INT_OR_STRING):
        return DYN.sized(_text_size(schema)), 1
    kind = schema.get("type")
    if kind == "array":
        return _list_type(schema)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return _map_type(schema)
    if kind == "object":
        return _object_type(schema, root=root or bool(schema.get(EMBEDDED)))
    if kind == "string":
        return _text_type(schema)
    scalars = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
    return (scalars[kind], SMALLEST[kind]) if kind in scalars else None


def _list_type(schema: Body) -> tuple[CelType, int] | None:
    item = _sized_type(schema["items"]) if isinstance(schema.get("items"), dict) else None
    if item is None:
        return None
    most = schema.get("maxItems", TEXT_MAX // (item[1] + 1))
    plain = list_of(item[0], max(most, 0))
    unordered = schema.get(LIST_TYPE) in {"set", "map"}
    return CelType("list", plain.params, size_max=plain.size_max, unordered=unordered), 2


def _map_type(schema: Body) -> tuple[CelType, int] | None:
    value = _sized_type(schema["additionalProperties"])
    if value is None:
        return None
    most = schema.get("maxProperties", TEXT_MAX // (value[1] + 6))
    # Kubernetes counts the keys of maps as nothing.
    return map_of(STRING.sized(0), value[0], max(most, 0)), 2


def _object_type(schema: Body, *, root: bool) -> tuple[CelType, int]:
    properties = {**schema.get("properties", {}), **(OBJECT_FIELDS if root else {})}
    fields: dict[str, CelType] = {}
    smallest = 2
    for name, part in properties.items():
        field = _sized_type(part)
        if field is None:
            continue
        identifier = escape(name)
        if identifier is not None:
            fields[identifier] = field[0]
        if name in schema.get("required", ()) and part.get("default") is None:
            smallest += len(name) + field[1] + 4
    return object_of(fields), smallest


def _text_type(schema: Body) -> tuple[CelType, int]:
    if schema.get("format") in FORMATS:
        type_, smallest, largest = FORMATS[schema["format"]]
        if type_ is BYTES:
            return BYTES.sized(schema.get("maxLength", largest)), smallest
        return type_, smallest
    return STRING.sized(_text_size(schema)), 2


def _text_size(schema: Body) -> int:
    if "maxLength" in schema:
        return max(int(schema["maxLength"]), 0) * 4  # a character has up to four bytes
    texts = [item for item in schema.get("enum", ()) if isinstance(item, str)]
    return max(map(len, texts)) if texts else TEXT_MAX


# --- values ------------------------------------------------------------------------------------

Converter: TypeAlias = Callable[[object], object]


def converter_of(schema: Body) -> Converter | None:
    """The conversion of JSON into values of the schema's type; None when none is needed."""
    kind = schema.get("type")
    if schema.get(INT_OR_STRING):
        return None
    if kind == "number":
        return lambda value: float(value) if isinstance(value, int) else value
    if kind == "integer":
        return lambda value: int(value) if isinstance(value, float) else value
    if kind == "string":
        return CONVERTERS.get(schema.get("format", ""))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return _list_converter(converter_of(schema["items"]))
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return _map_converter(converter_of(schema["additionalProperties"]))
    return _object_converter(schema.get("properties", {}))


def _list_converter(item: Converter | None) -> Converter | None:
    if item is None:
        return None
    return lambda value: [item(one) for one in value] if isinstance(value, list) else value


def _map_converter(item: Converter | None) -> Converter | None:
    if item is None:
        return None
    return lambda value: (
        {key: item(one) for key, one in value.items()} if isinstance(value, dict) else value
    )


def _object_converter(properties: Mapping[str, Body]) -> Converter | None:
    compiled = {name: converter_of(part) for name, part in properties.items()}
    fields = {name: convert for name, convert in compiled.items() if convert is not None}
    if not fields:
        return None

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            return value
        changed = {name: fields[name](value[name]) for name in fields if name in value}
        return {**value, **changed} if changed else value

    return convert


def _from_text(parse: Callable[[str], object]) -> Converter:
    def convert(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except (EvaluationError, ValueError, binascii.Error):
            return value  # the schema refuses it; the rule sees what was written

    return convert


CONVERTERS: Mapping[str, Converter] = {
    "date-time": _from_text(conversions.parse_timestamp),
    "date": _from_text(lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC)),
    "duration": _from_text(conversions.parse_duration),
    "byte": _from_text(lambda text: base64.b64decode(text, validate=True)),
}
