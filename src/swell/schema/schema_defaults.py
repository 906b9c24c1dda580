"""Checks of the defaults in a structural schema: each must be valid by the schema it stands in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError, Path
from swell.schema.pruning import (
    EMBEDDED,
    META_FIELDS,
    FilledTooMuchError,
    Pruning,
    compile_pruner,
)
from swell.schema.values import MISSING, compile_values

# (schema, default, path, whether it is the root) -> the errors of a default's validation rules.
RuleErrors: TypeAlias = Callable[[Body, object, Path, bool], list[FieldError]]


def default_errors(schema: Body, path: str, rules: RuleErrors) -> list[FieldError]:
    """All errors of the defaults in a schema whose structure is right."""
    return list(_errors(schema, path, rules, is_root=True))


def _errors(
    schema: Body, path: str, rules: RuleErrors, *, is_root: bool = False, in_meta: bool = False
) -> Iterator[FieldError]:
    is_whole = is_root or bool(schema.get(EMBEDDED))
    if schema.get("default") is not None:
        yield from _own_errors(schema, path, rules, is_root=is_root, in_meta=in_meta)
    # A real server does not look at defaults inside additionalProperties.
    if isinstance(schema.get("items"), dict):
        yield from _errors(schema["items"], f"{path}.items", rules, in_meta=in_meta)
    for name, part in schema.get("properties", {}).items():
        inside = not part.get(EMBEDDED) and (in_meta or (is_whole and name in META_FIELDS))
        yield from _errors(part, f"{path}.properties[{name}]", rules, in_meta=inside)


def _own_errors(
    schema: Body, path: str, rules: RuleErrors, *, is_root: bool, in_meta: bool
) -> Iterator[FieldError]:
    default, where = schema["default"], f"{path}.default"
    found = Pruning()
    pruner = compile_pruner(schema, metadata=lambda value, _path, _found: value, root=is_root)
    try:
        if pruner is not None:
            pruner(default, None, found)
    except FilledTooMuchError:
        detail = "must not outgrow an object with the defaults of its own fields"
        yield field_errors.forbidden(where, detail)
        return
    if found.unknown and not in_meta:
        yield field_errors.invalid(where, default, "must not have unknown fields")
    errors: list[FieldError] = []
    checked = {**schema, EMBEDDED: True} if is_root else schema
    if checked.get(EMBEDDED) and isinstance(default, dict):  # its metadata is looked at first
        compile_values({"type": "object", EMBEDDED: True})(default, MISSING, None, errors)
    if not errors:
        compile_values(checked)(default, MISSING, None, errors)
    if in_meta and errors:
        yield field_errors.invalid(where, default, "must result in valid metadata")
        return
    if not errors:
        yield from rules(schema, default, (None, where), is_root)
    for error in errors:
        is_of_field = error.field and error.field != field_errors.NO_FIELD
        yield error._replace(field=f"{where}.{error.field}" if is_of_field else where)
