"""Custom resources are brought into shape: unknown fields and nulls go, defaults come.

Checks no value: what has the wrong type passes through and is refused by `values`. Never changes
what it is given.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TypeAlias

from swell.api.meta import Body
from swell.cluster.embedded.schema.paths import Path, render

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
META_FIELDS = ("apiVersion", "kind", "metadata")

# (value, where it is, unknown fields found) -> the value to keep. None: nothing can change in it.
Shaper: TypeAlias = Callable[[object, Path, list[str]], object]
Field: TypeAlias = tuple[bool, Shaper | None]  # may it be null, and what shapes it


def compile_shape(schema: Body, *, metadata: Shaper, root: bool = False) -> Shaper | None:
    """The shaper of a structural schema; `metadata` shapes the metadata of whole objects."""
    whole = root or bool(schema.get(EMBEDDED))
    if "properties" in schema or "additionalProperties" in schema or whole:
        return _object_shaper(schema, metadata, whole=whole)
    if schema.get("type") == "array" or "items" in schema:
        return _list_shaper(schema, metadata)
    # A schema without fields knows none: an object given for it is emptied.
    return None if schema.get(PRESERVE) else _empty


def _empty(value: object, path: Path, unknown: list[str]) -> object:
    """No schema allows anything inside this value."""
    if isinstance(value, dict):
        unknown.extend(render((path, str(key))) for key in value)
        return {}
    if isinstance(value, list):
        return [_empty(item, (path, index), unknown) for index, item in enumerate(value)]
    return value


def _object_shaper(schema: Body, metadata: Shaper, *, whole: bool) -> Shaper:
    fields, defaults = _compile_fields(schema, metadata, whole=whole)
    others = _compile_others(schema, metadata)
    preserve = bool(schema.get(PRESERVE))

    def shape(value: object, path: Path, unknown: list[str]) -> object:
        if type(value) is not dict:
            return value
        kept: Body = {}
        for name, item in value.items():
            field = fields.get(name, others)
            if field is None:
                if preserve:
                    kept[name] = item
                else:
                    unknown.append(render((path, name)))
                continue
            nullable, child = field
            if item is not None:
                kept[name] = child(item, (path, name), unknown) if child else item
            elif nullable:
                kept[name] = None
        for name, default in defaults.items():
            if name not in kept:
                kept[name] = copy.deepcopy(default)
        return kept

    return shape


def _compile_others(schema: Body, metadata: Shaper) -> Field | None:
    """Fields that have no name in the schema; None when there may be none."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return _nullable(additional), compile_shape(additional, metadata=metadata)
    return (True, _empty) if additional is True else None


def _compile_fields(
    schema: Body, metadata: Shaper, *, whole: bool
) -> tuple[dict[str, Field], Mapping[str, object]]:
    fields: dict[str, Field] = {}
    defaults: dict[str, object] = {}
    for name, child in schema.get("properties", {}).items():
        shaper = compile_shape(child, metadata=metadata)
        fields[name] = (_nullable(child), shaper)
        if child.get("default") is not None:
            default = child["default"]
            defaults[name] = shaper(default, None, []) if shaper else default
    if whole:
        fields |= {
            "apiVersion": (False, None),
            "kind": (False, None),
            "metadata": (False, metadata),
        }
        for name in META_FIELDS:
            defaults.pop(name, None)
    return fields, defaults


def _list_shaper(schema: Body, metadata: Shaper) -> Shaper | None:
    items = schema.get("items")
    if not isinstance(items, dict):
        return None if schema.get(PRESERVE) else _empty
    child = compile_shape(items, metadata=metadata)
    default = items.get("default")
    fill_nulls = default is not None and not _nullable(items)
    if child is None and not fill_nulls:
        return None

    def shape(value: object, path: Path, unknown: list[str]) -> object:
        if type(value) is not list:
            return value
        if fill_nulls:
            value = [copy.deepcopy(default) if item is None else item for item in value]
        if child is None:
            return value
        return [child(item, (path, index), unknown) for index, item in enumerate(value)]

    return shape


def _nullable(schema: Body) -> bool:
    return bool(schema.get("nullable"))
