"""Checks of single keywords in the schema of a definition, part by part.

They stand beside those of its structure: what is wrong in one part leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError
from swell.schema.pruning import EMBEDDED, META_FIELDS, PRESERVE
from swell.schema.structural import JUNCTORS, MAP_TYPE, wrong_type
from swell.schema.values import LIST_KEYS, LIST_TYPE

TYPES = ("array", "boolean", "integer", "number", "object", "string")
# What a schema may say at its root if its status is served by itself, as the schema of the status
# is then taken from it.
_ROOT_WITH_STATUS = frozenset((
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum",
    "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
    "multipleOf", "required", "items", "properties", "externalDocs", "example", PRESERVE,
    "x-kubernetes-validations",
))  # fmt: skip


class KeywordPlace(NamedTuple):
    """Where a part of a schema stands, as far as it decides what the part may say."""

    path: str
    is_root: bool = False
    in_metadata: bool = False  # of the object, or of an embedded one
    may_default: bool = True
    is_nested: bool = False  # under anyOf, oneOf, allOf or not

    def child(self, keyword: str) -> KeywordPlace:
        return self._replace(path=f"{self.path}.{keyword}", is_root=False)


def root_errors(schema: Body, path: str, *, has_status: bool) -> Iterator[FieldError]:
    """Errors of the keywords that a schema may not have at its root."""
    if has_status:
        is_named = "$ref" in schema or schema.get("id") or schema.get("$schema")
        kind = "object" if is_named else schema.get("type") or "object"
        others = set(schema)
        if kind != "object":
            yield field_errors.invalid(f"{path}.type", kind, 'only "object" is allowed')
        if kind == "object" and others - _ROOT_WITH_STATUS:
            detail = "only some fields are allowed at the root if the status is a subresource"
            yield field_errors.invalid(path, sorted(others - _ROOT_WITH_STATUS), detail)
    if schema.get("nullable"):
        yield field_errors.forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def parts(schema: Body, place: KeywordPlace) -> Iterator[tuple[Body, KeywordPlace]]:
    """Every schema in a schema, restrictions included, with its place."""
    for name, part in schema.get("properties", {}).items():
        where = place.child(f"properties[{name}]")
        if (place.is_root or schema.get(EMBEDDED)) and name in META_FIELDS:
            may_default = where.may_default and not place.is_root
            where = where._replace(in_metadata=True, may_default=may_default)
        yield part, where
    if isinstance(schema.get("additionalProperties"), dict):
        where = place.child("additionalProperties")
        may_default = place.may_default and not place.in_metadata
        yield schema["additionalProperties"], where._replace(may_default=may_default)
    items = schema.get("items")
    if isinstance(items, dict):
        yield items, place.child("items")
    for keyword, part in _restrictions(schema):
        yield part, place._replace(is_nested=True).child(keyword)


def _restrictions(schema: Body) -> Iterator[tuple[str, Body]]:
    """The schemas that describe no field of their own, and where in the schema they stand."""
    for keyword in (*JUNCTORS, "items"):
        listed = schema.get(keyword)
        for index, part in enumerate(listed if isinstance(listed, list) else ()):
            yield f"{keyword}[{index}]", part
    if schema.get("not") is not None:
        yield "not", schema["not"]
    for keyword in ("definitions", "dependencies"):
        for name, part in (schema.get(keyword) or {}).items():
            if isinstance(part, dict):
                yield f"{keyword}[{name}]", part


def keyword_errors(schema: Body, place: KeywordPlace) -> Iterator[FieldError]:
    """The errors of one part, without those of the parts inside."""
    kind, path = schema.get("type"), place.path
    if kind and kind not in TYPES:
        yield field_errors.not_supported(f"{path}.type", kind, TYPES)
    if kind == "null":
        yield field_errors.forbidden(f"{path}.type", "use nullable as an alternative")
    if schema.get("default") is not None and not place.may_default:
        yield field_errors.forbidden(f"{path}.default", "must not be set in metadata")
    yield from _unsupported(schema, path)
    if schema.get(EMBEDDED) and place.in_metadata:
        detail = "must not be used inside of metadata"
        yield field_errors.forbidden(f"{path}.{EMBEDDED}", detail)
    if schema.get("properties") and schema.get("additionalProperties", True) is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield field_errors.forbidden(f"{path}.additionalProperties", detail)
    if schema.get(PRESERVE) is False:
        yield field_errors.invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    yield from _map_errors(schema, path)
    yield from _list_errors(schema, path)


def _unsupported(schema: Body, path: str) -> Iterator[FieldError]:
    given = [name for name in ("id", "patternProperties", "definitions") if schema.get(name)]
    pointers = ("additionalItems", "dependencies", "$ref")
    given += [name for name in pointers if schema.get(name) is not None]
    for keyword in given:
        yield field_errors.forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        yield field_errors.forbidden(f"{path}.uniqueItems", "uniqueItems cannot be set to true")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield field_errors.forbidden(f"{path}.items", "items must be a schema object")


def _map_errors(schema: Body, path: str) -> Iterator[FieldError]:
    map_type = schema.get(MAP_TYPE)
    if map_type is None:
        return
    yield from wrong_type(schema, "object", f"{path}.type", MAP_TYPE)
    if map_type not in {"atomic", "granular"}:
        yield field_errors.not_supported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))


def _list_errors(schema: Body, path: str) -> Iterator[FieldError]:
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS, [])
    items = schema.get("items")
    if list_type is not None:
        yield from wrong_type(schema, "array", f"{path}.type", LIST_TYPE)
        if list_type not in {"atomic", "set", "map"}:
            yield field_errors.not_supported(
                f"{path}.{LIST_TYPE}", list_type, ("atomic", "set", "map")
            )
    if keys and list_type != "map":
        detail = f"must be map if {LIST_KEYS} is non-empty"
        if list_type is None:
            yield field_errors.required(f"{path}.{LIST_TYPE}", detail)
        else:
            yield field_errors.invalid(f"{path}.{LIST_TYPE}", list_type, detail)
    # Items of sets and keys of list maps are compared, so they must be comparable as a whole.
    if list_type == "set" and schema.get("type") == "array" and isinstance(items, dict):
        yield from _set_errors(items, f"{path}.items")
    if list_type == "map":
        yield from _list_map_errors(keys, items, path)
    if list_type in {"set", "map"} and isinstance(items, dict) and items.get("nullable"):
        detail = f"cannot be nullable when {LIST_TYPE} is {list_type}"
        yield field_errors.forbidden(f"{path}.items.nullable", detail)


def _set_errors(items: Body, path: str) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield field_errors.invalid(f"{path}.{LIST_TYPE}", items[LIST_TYPE], detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield field_errors.invalid(f"{path}.{MAP_TYPE}", items.get(MAP_TYPE, ""), detail)


def _list_map_errors(keys: list[str], items: object, path: str) -> Iterator[FieldError]:
    if not keys:
        detail = f"must not be empty if {LIST_TYPE} is map"
        yield field_errors.required(f"{path}.{LIST_KEYS}", detail)
    if items is None:
        detail = f"must have a schema if {LIST_TYPE} is map"
        yield field_errors.required(f"{path}.items", detail)
        return
    if not isinstance(items, dict):
        detail = f"must only have a single schema if {LIST_TYPE} is map"
        yield field_errors.invalid(f"{path}.items", items, detail)
        return
    if items.get("type") != "object":
        detail = f"must be object if parent array's {LIST_TYPE} is map"
        yield field_errors.invalid(f"{path}.items.type", items.get("type", ""), detail)
        return
    if len(set(keys)) != len(keys):
        detail = "must not contain duplicate entries"
        yield field_errors.invalid(f"{path}.{LIST_KEYS}", keys, detail)
    for key in keys:
        part = items.get("properties", {}).get(key)
        if part is None:
            detail = "entries must all be names of item properties"
            yield field_errors.invalid(f"{path}.{LIST_KEYS}", keys, detail)
        else:
            is_required = key in items.get("required", ())
            yield from _key_errors(part, f"{path}.items.properties[{key}]", is_required=is_required)


def _key_errors(part: Body, path: str, *, is_required: bool) -> Iterator[FieldError]:
    if part.get("type") in {"array", "object"}:
        yield field_errors.invalid(f"{path}.type", part["type"], "must be a scalar type")
    if not is_required and part.get("default") is None:
        detail = f"is in {LIST_KEYS}, so it must have a default or be a required property"
        yield field_errors.required(f"{path}.default", detail)
    if part.get("nullable"):
        detail = f"is in {LIST_KEYS}, so it cannot be nullable"
        yield field_errors.forbidden(f"{path}.nullable", detail)
