"""Pruning and defaulting of custom resources by their schema.

Unknown fields are removed and reported, nulls of fields that are not nullable are removed, and
missing fields get their defaults. No value is checked: one of a wrong type passes and is refused by
`values`. The input is never changed. Defaults have a budget in bytes: an item of two bytes may have
one of a megabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from swell.api import codec
from swell.api.meta import Body
from swell.schema.field_errors import Path, render

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
META_FIELDS = ("apiVersion", "kind", "metadata")

# Of the defaults that one object is given. No larger object is stored anyhow.
FILLED_BYTES_MAX = 3 << 19


class FilledTooMuchError(Exception):
    """The defaults of an object have more bytes than any object may have."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(f"{n_bytes} bytes of defaults")
        self.n_bytes = n_bytes


class Default(NamedTuple):
    """A default as JSON: every object gets a value of its own, which it may change."""

    raw: bytes
    n_bytes: int


@dataclass(slots=True)
class Pruning:
    """Notes what pruning one object has found and filled in so far."""

    unknown: list[str] = field(default_factory=list)
    n_filled_bytes: int = 0

    def fill(self, default: Default) -> object:
        self.n_filled_bytes += default.n_bytes
        if self.n_filled_bytes > FILLED_BYTES_MAX:
            raise FilledTooMuchError(self.n_filled_bytes)
        return codec.decode(default.raw, object)


# (value, its path, findings) -> the value to keep. None: nothing in it can change.
Pruner: TypeAlias = Callable[[object, Path, Pruning], object]
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


def _empty(value: object, path: Path, found: Pruning) -> object:
    """Empty a value for which the schema declares nothing."""
    if isinstance(value, dict):
        found.unknown.extend(render((path, str(key))) for key in value)
        return {}
    if isinstance(value, list):
        return [_empty(item, (path, index), found) for index, item in enumerate(value)]
    return value


def _object_pruner(schema: Body, inner: Compile, metadata: Pruner | None, *, fill: bool) -> Pruner:
    """The pruner of an object; `metadata` is given for whole objects only."""
    fields = _compile_fields(schema, inner, metadata)
    defaults = _compile_defaults(schema, fields, whole=metadata is not None) if fill else {}
    other = _compile_other(schema, inner)
    preserve = bool(schema.get(PRESERVE))

    def prune(value: object, path: Path, found: Pruning) -> object:
        if type(value) is not dict:
            return value
        kept: Body = {}
        for name, item in value.items():
            field = fields.get(name, other)
            if field is None:
                if preserve:
                    kept[name] = item
                else:
                    found.unknown.append(render((path, name)))
                continue
            nullable, child = field
            if item is not None:
                kept[name] = child(item, (path, name), found) if child else item
            elif nullable:
                kept[name] = None
        for name, default in defaults.items():
            if name not in kept:
                kept[name] = found.fill(default)
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
) -> Mapping[str, Default]:
    """The defaults of missing fields. They are pruned and defaulted themselves."""
    defaults: dict[str, Default] = {}
    for name, part in schema.get("properties", {}).items():
        default, pruner = part.get("default"), fields[name][1]
        # The metadata of whole objects is the server's, so defaults of it are ignored.
        if default is not None and not (whole and name in META_FIELDS):
            defaults[name] = _default(default, pruner)
    return defaults


def _default(default: object, pruner: Pruner | None) -> Default:
    """A default as it is filled in; one that outgrows every object is refused where it is used."""
    try:
        raw = codec.encode(pruner(default, None, Pruning()) if pruner else default)
    except FilledTooMuchError as error:
        return Default(b"null", error.n_bytes)
    return Default(raw, len(raw))


def _list_pruner(schema: Body, inner: Compile, *, fill: bool) -> Pruner | None:
    items = schema.get("items")
    if not isinstance(items, dict):
        return None if schema.get(PRESERVE) else _empty
    child = inner(items)
    given = items.get("default")
    # A null item is replaced by the default, unless null is allowed.
    is_filled = fill and given is not None and not _nullable(items)
    default = _default(given, None) if is_filled else None
    if child is None and default is None:
        return None

    def prune(value: object, path: Path, found: Pruning) -> object:
        if type(value) is not list:
            return value
        if default is not None:
            value = [found.fill(default) if item is None else item for item in value]
        if child is None:
            return value
        return [child(item, (path, index), found) for index, item in enumerate(value)]

    return prune


def _nullable(schema: Body) -> bool:
    return bool(schema.get("nullable"))
