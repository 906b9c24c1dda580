"""Pruning and defaulting of custom resources by their schema.

Unknown fields are removed and reported, nulls of fields that are not nullable are removed, and
missing fields get their defaults. No value is checked: one of a wrong type passes and is refused by
`values`. The input is never changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from swell.api.meta import Body
from swell.schema.field_errors import Path, render

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
META_FIELDS = ("apiVersion", "kind", "metadata")

# (value, its path, unknown fields found) -> the value to keep. None: nothing in it can change.
Pruner: TypeAlias = Callable[[object, Path, list[str]], object]
Compile: TypeAlias = Callable[[Body], Pruner | None]
# Whether a field is nullable, and its pruner.
Field: TypeAlias = tuple[bool, Pruner | None]


def compile_pruner(
    schema: Body, *, metadata: Pruner, root: bool = False, fill: bool = True
) -> Pruner | None:
    """The pruner of a structural schema; `metadata` is the one of the metadata of whole objects.

    Whole objects are the root and embedded resources. Without `fill` no default is added.
    """
    whole = root or bool(schema.get(EMBEDDED))
    inner = partial(compile_pruner, metadata=metadata, fill=fill)
    if "properties" in schema or "additionalProperties" in schema or whole:
        return _object_pruner(schema, inner, metadata if whole else None, fill=fill)
    if schema.get("type") == "array" or "items" in schema:
        return _list_pruner(schema, inner, fill=fill)
    # A schema without properties declares none, so an object given for it is emptied.
    return None if schema.get(PRESERVE) else _empty


def _empty(value: object, path: Path, unknown: list[str]) -> object:
    """Empty a value for which the schema declares nothing."""
    if isinstance(value, dict):
        unknown.extend(render((path, str(key))) for key in value)
        return {}
    if isinstance(value, list):
        return [_empty(item, (path, index), unknown) for index, item in enumerate(value)]
    return value


def _object_pruner(schema: Body, inner: Compile, metadata: Pruner | None, *, fill: bool) -> Pruner:
    """The pruner of an object; `metadata` is given for whole objects only."""
    fields = _compile_fields(schema, inner, metadata)
    defaults = _compile_defaults(schema, fields, whole=metadata is not None) if fill else {}
    other = _compile_other(schema, inner)
    preserve = bool(schema.get(PRESERVE))

    def prune(value: object, path: Path, unknown: list[str]) -> object:
        if type(value) is not dict:
            return value
        kept: Body = {}
        for name, item in value.items():
            field = fields.get(name, other)
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
                kept[name] = copy.deepcopy(default)  # the caller may change the object
        return kept

    return prune


def _compile_other(schema: Body, inner: Compile) -> Field | None:
    """The field for names the schema does not list; None when there may be no such names."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return _nullable(additional), inner(additional)
    # `true` allows any name, but declares nothing of the values: they are emptied.
    return (True, _empty) if additional is True else None


def _compile_fields(schema: Body, inner: Compile, metadata: Pruner | None) -> dict[str, Field]:
    parts = schema.get("properties", {}).items()
    fields: dict[str, Field] = {name: (_nullable(part), inner(part)) for name, part in parts}
    if metadata is not None:
        fields |= {
            "apiVersion": (False, None),
            "kind": (False, None),
            "metadata": (False, metadata),
        }
    return fields


def _compile_defaults(
    schema: Body, fields: Mapping[str, Field], *, whole: bool
) -> Mapping[str, object]:
    """The defaults of missing fields. They are pruned and defaulted themselves."""
    defaults: dict[str, object] = {}
    for name, part in schema.get("properties", {}).items():
        default, pruner = part.get("default"), fields[name][1]
        # The metadata of whole objects is the server's, so defaults of it are ignored.
        if default is not None and not (whole and name in META_FIELDS):
            defaults[name] = pruner(default, None, []) if pruner else default
    return defaults


def _list_pruner(schema: Body, inner: Compile, *, fill: bool) -> Pruner | None:
    items = schema.get("items")
    if not isinstance(items, dict):
        return None if schema.get(PRESERVE) else _empty
    child = inner(items)
    default = items.get("default")
    # A null item is replaced by the default, unless null is allowed.
    fill_nulls = fill and default is not None and not _nullable(items)
    if child is None and not fill_nulls:
        return None

    def prune(value: object, path: Path, unknown: list[str]) -> object:
        if type(value) is not list:
            return value
        if fill_nulls:
            value = [copy.deepcopy(default) if item is None else item for item in value]
        if child is None:
            return value
        return [child(item, (path, index), unknown) for index, item in enumerate(value)]

    return prune


def _nullable(schema: Body) -> bool:
    return bool(schema.get("nullable"))
