"""Errors of one field of an object, as values, in the words of Kubernetes, and paths to fields.

A `FieldError` becomes one cause of a Status. The constructors below are named after the types of
error that Kubernetes has and write the same messages. Nothing here decides what is wrong: schemas,
validation rules and the rules of built-in kinds do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

# Kubernetes prints this for an error that belongs to no field.
NO_FIELD = "<nil>"

# A longer value is cut in a message, so that a huge field does not become a huge answer.
_VALUE_CHARS_MAX = 200


class FieldError(NamedTuple):
    """One problem of one field: the cause's reason, the field's path and the message."""

    reason: str
    field: str
    message: str


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _message("Required value", detail))


def invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {_quoted(value)}: {detail}")


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {_quoted(value)}: {detail}")


def not_supported(field: str, value: object, supported: Iterable[object]) -> FieldError:
    values = ", ".join(_quoted(item) for item in supported)
    return FieldError(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {_quoted(value)}: supported values: {values}",
    )


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _message("Forbidden", detail))


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_quoted(value)}")


def not_found(field: str, value: object) -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {_quoted(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(
        "FieldValueTooLong", field, f"Too long: may not be more than {limit} characters"
    )


def too_many(field: str, n_items: int, limit: int) -> FieldError:
    return FieldError(
        "FieldValueTooMany", field, f"Too many: {n_items}: must have at most {limit} items"
    )


def _message(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_CHARS_MAX else text[:_VALUE_CHARS_MAX] + "..."


# --- paths ---------------------------------------------------------------------------------------

# A path as its own way back to the root: (parent, step). It is built on the way down at almost no
# cost, and rendered only for an error. A step is a field name, a MapKey or the index of an item.
Path: TypeAlias = "tuple[Path, str | int] | None"


class MapKey(str):
    """A key of a map, which a path shows in brackets."""

    __slots__ = ()


def render(path: Path) -> str:
    """Write a path as Kubernetes does: `spec.containers[0].image`, `data[key]`."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if isinstance(step, (int, MapKey)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
