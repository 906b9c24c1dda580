"""JSON patches (RFC 6902), as strict as Kubernetes: every path must exist."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from swell.schema.scalars import JSON_TYPES

# Repeated copies double the object each time; this bounds the size of one copy.
COPIES_MAX = 10_000


class JsonPatchError(Exception):
    """An operation cannot be applied to the document."""


def apply_operations(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The patched document; the given one is not changed."""
    patched = copy.deepcopy(document)
    for operation in operations:
        name = operation.get("op", "")
        run = OPERATIONS.get(name) if isinstance(name, str) else None
        if run is None:
            raise JsonPatchError(f"unexpected kind: {operation.get('op')}")
        patched = run(patched, operation)
    return patched


def _pointer(operation: dict[str, Any], name: str = "path") -> list[str]:
    pointer = operation.get(name)
    if not isinstance(pointer, str):
        raise JsonPatchError(f"the operation has no {name}")
    if pointer and not pointer.startswith("/"):
        raise JsonPatchError(f"{pointer!r} is no path")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise JsonPatchError("the operation has no value")
    return copy.deepcopy(operation["value"])


def _get(document: Any, pointer: list[str]) -> Any:
    for step in pointer:
        if isinstance(document, dict):
            if step not in document:
                raise JsonPatchError(f"missing key {step!r}")
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(document, step)]
        else:
            raise JsonPatchError(f"{step!r} leads into a value")
    return document


def _index(items: list[Any], step: str, *, beyond: bool = False) -> int:
    """The index that a step names; with `beyond` also the one after the last, for adding."""
    if beyond and step == "-":
        return len(items)
    # As in Kubernetes' library, a negative index counts from the end. Nine digits are more than
    # any list has, and few enough to convert.
    digits = step.removeprefix("-")
    if not digits.isdigit() or not digits.isascii() or len(digits) > 9:
        raise JsonPatchError(f"{step!r} is no index")
    at = int(step)
    at += len(items) + beyond if at < 0 else 0
    if not 0 <= at < len(items) + beyond:
        raise JsonPatchError(f"index {step} is out of bounds")
    return at


def _set(document: Any, pointer: list[str], value: Any) -> Any:
    if not pointer:
        return value
    parent, last = _get(document, pointer[:-1]), pointer[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(_index(parent, last, beyond=True), value)
    else:
        raise JsonPatchError(f"{last!r} leads into a value")
    return document


def _drop(document: Any, pointer: list[str]) -> Any:
    if not pointer:
        raise JsonPatchError("the whole document cannot be removed")
    parent, last = _get(document, pointer[:-1]), pointer[-1]
    _get(parent, [last])
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[_index(parent, last)]
    return document


def _add(document: Any, operation: dict[str, Any]) -> Any:
    return _set(document, _pointer(operation), _value(operation))


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    return _drop(document, _pointer(operation))


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    pointer, value = _pointer(operation), _value(operation)
    if not pointer:
        return value
    _get(document, pointer)  # unlike add, replace needs an old value
    parent, last = _get(document, pointer[:-1]), pointer[-1]
    parent[_index(parent, last) if isinstance(parent, list) else last] = value
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    origin, target = _pointer(operation, "from"), _pointer(operation)
    value = _get(document, origin)
    if target[: len(origin)] == origin and len(target) > len(origin):
        raise JsonPatchError("a value cannot be moved into itself")
    return _set(_drop(document, origin), target, value)


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    origin = _pointer(operation, "from")
    if not origin:
        raise JsonPatchError("the whole object cannot be copied into itself")
    value = _get(document, origin)
    if _n_values(value) > COPIES_MAX:
        raise JsonPatchError("the copy is too large")
    return _set(document, _pointer(operation), copy.deepcopy(value))


def _test(document: Any, operation: dict[str, Any]) -> Any:
    # Without a value the test is one for null.
    if not _equal(_get(document, _pointer(operation)), operation.get("value")):
        raise JsonPatchError(f"testing value {operation['path']} failed")
    return document


def _equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal. Unlike in Python, true and 1 differ."""
    numbers = {"integer", "number"}
    kinds = {JSON_TYPES[type(left)], JSON_TYPES[type(right)]}
    return bool(left == right) and (len(kinds) == 1 or kinds <= numbers)


def _n_values(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(_n_values(item) for item in value.values())
    if isinstance(value, list):
        return 1 + sum(_n_values(item) for item in value)
    return 1


OPERATIONS: Mapping[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
