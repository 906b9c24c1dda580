"""Checks of the schemas that a CustomResourceDefinition may bring: they must be structural.

A structural schema states the type of every field in one place; anyOf, oneOf, allOf and not may
only restrict values further. `keywords` checks what else a schema may say, and `schema_defaults`
its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError
from swell.schema.patterns import PatternError, compile_pattern
from swell.schema.pruning import EMBEDDED, PRESERVE
from swell.schema.scalars import INT_OR_STRING
from swell.schema.values import LIST_KEYS, LIST_TYPE

MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"
JUNCTORS = ("anyOf", "oneOf", "allOf")
# Keywords that may not be used under anyOf, oneOf, allOf and not.
NOT_NESTED = (
    "type",
    "title",
    "description",
    "nullable",
    PRESERVE,
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    VALIDATIONS,
)
# Those that may not even be given without a value.
NOT_GIVEN_NESTED = ("default", LIST_TYPE, MAP_TYPE)
# The long form of int-or-string, the one place where types may be repeated.
INT_OR_STRING_PARTS = [{"type": "integer"}, {"type": "string"}]
METADATA_NAMES = frozenset({"name", "generateName"})
# Empty, these are no part of a structural form.
_UNSEEN_EMPTY = frozenset(
    {"$ref", "patternProperties", "dependencies", "definitions", "enum", *JUNCTORS}
)
# What the schema of the root's metadata may say.
_OF_METADATA = {"type", "default", "properties"}
# Keywords of a schema with which it has no structural form at all.
_UNSUPPORTED = ("id", "$schema", "$ref", "patternProperties", "dependencies", "definitions")


class SchemaPath(NamedTuple):
    """The path of a part of a schema, and the level it is on."""

    path: str
    level: str  # root | field | item

    def child(self, keyword: str, level: str = "field") -> SchemaPath:
        return SchemaPath(f"{self.path}.{keyword}", level)

    def field(self, name: str) -> SchemaPath:
        return SchemaPath(f"{self.path}.properties[{name}]", "field")


def structural_errors(schema: Body, path: str) -> list[FieldError]:
    """All errors of the structure of a schema that has a structural form."""
    return [
        *_part_errors(schema, SchemaPath(path, "root")),
        *_undeclared_errors(schema, schema, path),
    ]


def has_structural_form(schema: Body) -> bool:
    """Whether a schema can be checked at all; if not, `keywords` says why."""
    if any(schema.get(keyword) for keyword in _UNSUPPORTED):
        return False
    if schema.get("additionalItems") is not None or schema.get(PRESERVE) is False:
        return False
    items = schema.get("items")
    if isinstance(items, list) and items:
        return False
    return all(map(has_structural_form, _all_parts(schema)))


def _all_parts(schema: Body) -> Iterator[Body]:
    for part, _ in children(schema, SchemaPath("", "field")):
        yield part
    yield from _restrictions(schema)


def _restrictions(schema: Body) -> Iterator[Body]:
    for junctor in JUNCTORS:
        yield from schema.get(junctor, ())
    if schema.get("not") is not None:
        yield schema["not"]


def children(schema: Body, place: SchemaPath) -> Iterator[tuple[Body, SchemaPath]]:
    """The schemas of the fields and items of a schema, with their paths."""
    for name, part in schema.get("properties", {}).items():
        yield part, place.field(name)
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"], place.child("additionalProperties")
    if isinstance(schema.get("items"), dict):
        yield schema["items"], place.child("items", "item")


def _part_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    yield from _int_or_string_errors(schema, place)
    yield from _pattern_errors(schema, place)
    yield from _type_errors(schema, place)
    yield from _metadata_errors(schema, place)
    yield from _junctor_errors(schema, place)
    for part, where in children(schema, place):
        yield from _part_errors(part, where)


def _int_or_string_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    if schema.get(INT_OR_STRING):
        for keyword in (PRESERVE, EMBEDDED):
            if schema.get(keyword):
                detail = f"must be false if {INT_OR_STRING} is true"
                yield field_errors.invalid(f"{place.path}.{keyword}", schema[keyword], detail)


def _pattern_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    if "pattern" in schema:
        try:
            compile_pattern(schema["pattern"])
        except PatternError as error:
            yield field_errors.invalid(f"{place.path}.pattern", schema["pattern"], str(error))


def _type_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    kind, path = schema.get("type"), f"{place.path}.type"
    if schema.get(EMBEDDED):
        yield from _embedded_errors(schema, place)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        where = "at the root" if place.level == "root" else f"for specified {place.level}s"
        yield field_errors.required(path, f"must not be empty {where}")
    if place.level == "root" and kind and kind != "object":
        yield field_errors.invalid(path, kind, "must be object at the root")
    if place.level == "root" and "additionalProperties" in schema:
        detail = "must not be used at the root"
        yield field_errors.forbidden(f"{place.path}.additionalProperties", detail)
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield field_errors.required(f"{place.path}.items", "must be specified")


def _embedded_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    yield from wrong_type(schema, "object", f"{place.path}.type", EMBEDDED)
    if "additionalProperties" in schema:
        detail = f"must not be used if {EMBEDDED} is set"
        yield field_errors.forbidden(f"{place.path}.additionalProperties", detail)
    if not schema.get(PRESERVE) and not schema.get("properties"):
        detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield field_errors.required(f"{place.path}.properties", detail)


def wrong_type(schema: Body, wanted: str, path: str, keyword: str) -> Iterator[FieldError]:
    """Say that a keyword asks for another type than the schema has."""
    kind, detail = schema.get("type"), f"must be {wanted} if {keyword} is specified"
    if not kind:
        yield field_errors.required(path, detail)
    elif kind != wanted:
        yield field_errors.invalid(path, kind, detail)


def _metadata_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    if place.level != "root" and not schema.get(EMBEDDED):
        return
    fields = schema.get("properties", {})
    wanted = {"kind": "string", "apiVersion": "string", "metadata": "object"}
    for name, kind in wanted.items():
        if name in fields and fields[name].get("type") != kind:
            where = f"{place.field(name).path}.type"
            yield field_errors.invalid(where, fields[name].get("type", ""), f"must be {kind}")
    metadata = fields.get("metadata", {})
    others = set(metadata.get("properties", {})) - METADATA_NAMES
    if place.level == "root" and (others or set(_seen(metadata)) - _OF_METADATA):
        detail = "must not specify anything other than name and generateName"
        yield field_errors.forbidden(place.field("metadata").path, detail)


def _junctor_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    for junctor in JUNCTORS:
        if junctor == "anyOf" and _is_int_or_string(schema):
            continue
        for index, part in enumerate(schema.get(junctor, ())):
            where = place.child(f"{junctor}[{index}]", place.level)
            # The long form of int-or-string may stand in the first part of allOf, too.
            is_first = junctor == "allOf" and index == 0
            yield from _nested_errors(part, where, may_repeat_types=is_first)
    if schema.get("not") is not None:
        yield from _nested_errors(schema["not"], place.child("not", place.level))


def _is_int_or_string(schema: Body) -> bool:
    return [_seen(part) for part in schema.get("anyOf", ())] == INT_OR_STRING_PARTS


def _seen(schema: Body) -> Body:
    """The part of a schema that is in its structural form."""
    return {
        name: value
        for name, value in schema.items()
        if value or not (name in _UNSEEN_EMPTY or (name == "items" and value == []))
    }


def _undeclared_errors(nested: Body, schema: Body, path: str) -> Iterator[FieldError]:
    """A restricted part must be declared outside too, or its values would be pruned."""
    for part in _restrictions(nested):
        yield from _undeclared_parts(part, schema, path)


def _undeclared_parts(part: Body, schema: Body, path: str) -> Iterator[FieldError]:
    yield from _undeclared_errors(part, schema, path)
    pairs = [
        (inner, schema.get("properties", {}).get(name), f"{path}.properties[{name}]")
        for name, inner in part.get("properties", {}).items()
    ]
    if isinstance(part.get("items"), dict):
        pairs.append((part["items"], schema.get("items"), f"{path}.items"))
    for inner, declared, where in pairs:
        if isinstance(declared, dict):
            yield from _undeclared_parts(inner, declared, where)
        else:
            yield field_errors.required(where, "because it is narrowed elsewhere")


def _nested_errors(
    schema: Body, place: SchemaPath, *, may_repeat_types: bool = False
) -> Iterator[FieldError]:
    for keyword in NOT_NESTED:
        if schema.get(keyword):
            yield field_errors.forbidden(
                f"{place.path}.{keyword}", "must be empty to be structural"
            )
    given = [name for name in NOT_GIVEN_NESTED if schema.get(name) is not None]
    if schema.get("additionalProperties", False) is not False:
        given.append("additionalProperties")
    for keyword in given:
        detail = "must be undefined to be structural"
        yield field_errors.forbidden(f"{place.path}.{keyword}", detail)
    if "metadata" in schema.get("properties", {}):
        where = f"{place.path}.properties[metadata]"
        yield field_errors.forbidden(where, "must not be specified in a nested context")
    yield from _pattern_errors(schema, place)
    if may_repeat_types and _is_int_or_string(schema):
        schema = {**schema, "anyOf": ()}
    for part, where_ in _nested_parts(schema, place):
        yield from _nested_errors(part, where_)


def _nested_parts(schema: Body, place: SchemaPath) -> Iterator[tuple[Body, SchemaPath]]:
    for junctor in JUNCTORS:
        for index, part in enumerate(schema.get(junctor, ())):
            yield part, place.child(f"{junctor}[{index}]")
    if schema.get("not") is not None:
        yield schema["not"], place.child("not")
    # additionalProperties are forbidden as a whole.
    yield from children({**schema, "additionalProperties": None}, place)
