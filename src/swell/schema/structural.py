"""Checks of the schemas that a CustomResourceDefinition may bring: they must be structural.

A structural schema states the type of every field in one place; anyOf, oneOf, allOf and not may
only restrict values further. Validation rules are not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError
from swell.schema.patterns import PatternError, compile_pattern
from swell.schema.pruning import (
    EMBEDDED,
    PRESERVE,
    FilledTooMuchError,
    Pruning,
    compile_pruner,
)
from swell.schema.scalars import INT_OR_STRING
from swell.schema.values import (
    LIST_KEYS,
    LIST_TYPE,
    MISSING,
    compile_values,
)

MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"
TYPES = ("array", "boolean", "integer", "number", "object", "string")
SCALARS = ("boolean", "integer", "number", "string")
JUNCTORS = ("anyOf", "oneOf", "allOf")
UNSUPPORTED = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
# Keywords that may not be used under anyOf, oneOf, allOf and not.
NOT_NESTED = (
    "type",
    "additionalProperties",
    "default",
    "title",
    "description",
    "nullable",
    PRESERVE,
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    VALIDATIONS,
)
# The long form of int-or-string.
INT_OR_STRING_PARTS = [{"type": "integer"}, {"type": "string"}]
ROOT_METADATA = frozenset({"name", "generateName"})


class SchemaPath(NamedTuple):
    """The path of a part of a schema, and the level it is on."""

    path: str
    level: str  # root | field | item
    is_free_value: bool = False  # of a map with any keys, or below one

    def child(self, keyword: str, level: str = "field") -> SchemaPath:
        is_free = self.is_free_value or keyword == "additionalProperties"
        return SchemaPath(f"{self.path}.{keyword}", level, is_free)

    def field(self, name: str) -> SchemaPath:
        return SchemaPath(f"{self.path}.properties[{name}]", "field", self.is_free_value)


def structural_errors(schema: Body, path: str) -> list[FieldError]:
    """All errors of the schema of one version of a custom resource."""
    return list(_part_errors(schema, SchemaPath(path, "root")))


def children(schema: Body, place: SchemaPath) -> Iterator[tuple[Body, SchemaPath]]:
    """The schemas of the fields and items of a schema, with their paths."""
    for name, part in schema.get("properties", {}).items():
        yield part, place.field(name)
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"], place.child("additionalProperties")
    if isinstance(schema.get("items"), dict):
        yield schema["items"], place.child("items", "item")


def _part_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    yield from _keyword_errors(schema, place)
    yield from _int_or_string_errors(schema, place)
    yield from _pattern_errors(schema, place)
    yield from _type_errors(schema, place)
    yield from _map_errors(schema, place)
    yield from _list_errors(schema, place)
    yield from _metadata_errors(schema, place)
    yield from _default_errors(schema, place)
    yield from _junctor_errors(schema, place)
    for part, where in children(schema, place):
        if isinstance(part, dict):
            yield from _part_errors(part, where)


def _keyword_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    for keyword in UNSUPPORTED:
        if schema.get(keyword):
            yield field_errors.forbidden(f"{place.path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        yield field_errors.forbidden(
            f"{place.path}.uniqueItems", "uniqueItems cannot be set to true"
        )
    if isinstance(schema.get("items"), list):
        yield field_errors.forbidden(f"{place.path}.items", "items must be a schema object")
    if schema.get("properties") and schema.get("additionalProperties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield field_errors.forbidden(f"{place.path}.additionalProperties", detail)
    if schema.get(PRESERVE) is False:
        yield field_errors.invalid(f"{place.path}.{PRESERVE}", False, "must be true or undefined")


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
    if kind and kind not in TYPES:
        yield field_errors.not_supported(path, kind, TYPES)
    if place.level == "root":
        if not kind and not schema.get(PRESERVE):
            yield field_errors.required(path, "must not be empty at the root")
        elif kind and kind != "object":
            yield field_errors.invalid(path, kind, "must be object at the root")
        if schema.get("nullable"):
            yield field_errors.forbidden(
                f"{place.path}.nullable", "nullable cannot be true at the root"
            )
        if "additionalProperties" in schema:
            detail = "must not be used at the root"
            yield field_errors.forbidden(f"{place.path}.additionalProperties", detail)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield field_errors.required(path, f"must not be empty for specified {place.level}s")
    if kind == "array" and "items" not in schema:
        yield field_errors.required(f"{place.path}.items", "must be specified")
    if schema.get(EMBEDDED):
        yield from _embedded_errors(schema, place)


def _embedded_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    if schema.get("type") != "object":
        detail = f"must be object if {EMBEDDED} is true"
        yield field_errors.invalid(f"{place.path}.type", schema.get("type", ""), detail)
    if "additionalProperties" in schema:
        detail = f"must not be used if {EMBEDDED} is set"
        yield field_errors.forbidden(f"{place.path}.additionalProperties", detail)
    if not schema.get(PRESERVE) and not schema.get("properties"):
        detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield field_errors.required(f"{place.path}.properties", detail)


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
    allowed = {"type", "description", "properties"}
    if place.level == "root" and (
        set(metadata) - allowed or set(metadata.get("properties", {})) - ROOT_METADATA
    ):
        detail = "must not specify anything other than name and generateName"
        yield field_errors.forbidden(place.field("metadata").path, detail)


def _map_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    kind, map_type = schema.get("type"), schema.get(MAP_TYPE)
    if map_type is not None:
        if map_type not in {"atomic", "granular"}:
            where = f"{place.path}.{MAP_TYPE}"
            yield field_errors.not_supported(where, map_type, ("atomic", "granular"))
        if kind != "object":
            detail = f"must be object if {MAP_TYPE} is specified"
            yield field_errors.invalid(f"{place.path}.type", kind or "", detail)


def _list_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    kind, list_type = schema.get("type"), schema.get(LIST_TYPE)
    if list_type is not None:
        if list_type not in {"atomic", "set", "map"}:
            where = f"{place.path}.{LIST_TYPE}"
            yield field_errors.not_supported(where, list_type, ("atomic", "set", "map"))
        if kind != "array":
            detail = f"must be array if {LIST_TYPE} is specified"
            yield field_errors.invalid(f"{place.path}.type", kind or "", detail)
    items = schema.get("items")
    items = items if isinstance(items, dict) else {}
    if list_type in {"set", "map"} and items.get("nullable"):
        detail = f"cannot be nullable when {LIST_TYPE} is {list_type}"
        yield field_errors.forbidden(f"{place.path}.items.nullable", detail)
    # Items of sets and keys of list maps are compared, so they must be comparable as a whole.
    if list_type == "set":
        yield from _set_errors(items, place.child("items", "item"))
    if list_type == "map":
        yield from _list_map_errors(schema.get(LIST_KEYS, []), items, place)
    elif schema.get(LIST_KEYS):
        detail = f"must be map if {LIST_KEYS} is non-empty"
        yield field_errors.invalid(f"{place.path}.{LIST_TYPE}", list_type or "", detail)


def _set_errors(items: Body, place: SchemaPath) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield field_errors.invalid(f"{place.path}.{LIST_TYPE}", items[LIST_TYPE], detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield field_errors.invalid(f"{place.path}.{MAP_TYPE}", items.get(MAP_TYPE, ""), detail)


def _list_map_errors(keys: list[str], items: Body, place: SchemaPath) -> Iterator[FieldError]:
    if not keys:
        detail = f"must not be empty if {LIST_TYPE} is map"
        yield field_errors.required(f"{place.path}.{LIST_KEYS}", detail)
    if items.get("type") != "object":
        detail = f"must be object if parent array's {LIST_TYPE} is map"
        yield field_errors.invalid(f"{place.path}.items.type", items.get("type", ""), detail)
    if len(set(keys)) != len(keys):
        detail = "must not contain duplicate entries"
        yield field_errors.invalid(f"{place.path}.{LIST_KEYS}", keys, detail)
    for key in keys:
        where = f"{place.path}.items.properties[{key}]"
        part = items.get("properties", {}).get(key)
        if part is None:
            detail = "entries must all be names of item properties"
            yield field_errors.invalid(f"{place.path}.{LIST_KEYS}", keys, detail)
            continue
        if part.get("type") not in SCALARS and not part.get(INT_OR_STRING):
            yield field_errors.invalid(
                f"{where}.type", part.get("type", ""), "must be a scalar type"
            )
        if key not in items.get("required", ()) and part.get("default") is None:
            detail = f"is in {LIST_KEYS}, so it must have a default or be a required property"
            yield field_errors.required(f"{where}.default", detail)
        if part.get("nullable"):
            detail = f"is in {LIST_KEYS}, so it cannot be nullable"
            yield field_errors.forbidden(f"{where}.nullable", detail)


def _default_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    if schema.get("default") is None:
        return
    where = f"{place.path}.default"
    if place.level == "root":
        yield field_errors.forbidden(where, "must not be set at the root")
        return
    if place.is_free_value:
        return  # a real server does not look at it
    found = Pruning()
    pruner = compile_pruner(schema, metadata=lambda value, _path, _found: value)
    try:
        if pruner is not None:
            pruner(schema["default"], None, found)
    except FilledTooMuchError:
        detail = "must not outgrow an object with the defaults of its own fields"
        yield field_errors.forbidden(where, detail)
        return
    if found.unknown:
        yield field_errors.invalid(where, schema["default"], "must not have unknown fields")
    # A default must be valid by the schema it stands in.
    errors: list[FieldError] = []
    compile_values(schema)(schema["default"], MISSING, None, errors)
    for error in errors:
        is_of_field = error.field and error.field != field_errors.NO_FIELD
        yield error._replace(field=f"{where}.{error.field}" if is_of_field else where)


def _junctor_errors(schema: Body, place: SchemaPath) -> Iterator[FieldError]:
    for junctor in JUNCTORS:
        for index, part in enumerate(schema.get(junctor, ())):
            where = place.child(f"{junctor}[{index}]", place.level)
            yield from _nested_errors(
                part, where, free_type=_is_int_or_string_form(schema, junctor)
            )
    if schema.get("not") is not None:
        where = place.child("not", place.level)
        yield from _nested_errors(schema["not"], where, free_type=False)
    if place.level == "root":  # kube-apiserver does not check deeper ones either
        yield from _undeclared_errors(schema, schema, place.path)


def _undeclared_errors(nested: Body, schema: Body, path: str) -> Iterator[FieldError]:
    """A restricted property must be declared outside too, or its values would be pruned."""
    parts = [part for junctor in JUNCTORS for part in nested.get(junctor, ())]
    if nested.get("not") is not None:
        parts.append(nested["not"])
    for part in parts:
        yield from _undeclared_errors(part, schema, path)
        for name, inner in part.get("properties", {}).items():
            where = f"{path}.properties[{name}]"
            declared = schema.get("properties", {}).get(name)
            if declared is None:
                yield field_errors.required(where, "because it is narrowed elsewhere")
            else:
                yield from _undeclared_errors({"allOf": [inner]}, declared, where)


def _is_int_or_string_form(schema: Body, junctor: str) -> bool:
    """Whether this is the long form of int-or-string, the one place where types may be repeated."""
    return (
        bool(schema.get(INT_OR_STRING))
        and junctor == "anyOf"
        and schema.get("anyOf") == INT_OR_STRING_PARTS
    )


def _nested_errors(schema: Body, place: SchemaPath, *, free_type: bool) -> Iterator[FieldError]:
    for keyword in NOT_NESTED:
        if schema.get(keyword) and not (free_type and keyword == "type"):
            yield field_errors.forbidden(
                f"{place.path}.{keyword}", "must be empty to be structural"
            )
    if "metadata" in schema.get("properties", {}):
        where = f"{place.path}.properties[metadata]"
        yield field_errors.forbidden(where, "must not be specified in a nested context")
    yield from _pattern_errors(schema, place)
    for junctor in JUNCTORS:
        for index, part in enumerate(schema.get(junctor, ())):
            where_ = place.child(f"{junctor}[{index}]")
            free = bool(junctor == "anyOf" and schema["anyOf"] == INT_OR_STRING_PARTS)
            yield from _nested_errors(part, where_, free_type=free)
    if schema.get("not") is not None:
        yield from _nested_errors(schema["not"], place.child("not"), free_type=False)
    for part, where_ in children(schema, place):
        yield from _nested_errors(part, where_, free_type=False)
