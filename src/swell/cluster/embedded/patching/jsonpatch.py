"""JSON patches (RFC 6902), as lenient as the library that a real API server applies them with.

A key that a map does not have reads as null: it can be tested for null, copied and replaced. Only
removing and moving need it. An operation without a value has the value null.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swell.schema.scalars import JSON_TYPES

# Repeated copies double the object each time; this bounds the size of one copy.
COPIES_MAX = 10_000


class JsonPatchError(Exception):
    """An operation cannot be applied to the document."""


def apply_operations(document: Any, operations: Sequence[dict[str, Any] | None]) -> Any:
    """The patched document; the given one is not changed."""
    patched = copy.deepcopy(document)
    for given in operations:
        operation = given or {}
        name = operation.get("op")
        run = OPERATIONS.get(name) if isinstance(name, str) else None
        if run is None:
            raise JsonPatchError(f"unexpected kind: {name}")
        patched = run(patched, operation)
    return patched


def _pointer(operation: dict[str, Any], name: str = "path") -> str:
    pointer = operation.get(name)
    if not isinstance(pointer, str):
        raise JsonPatchError(f"the operation has no {name}")
    return pointer


def _place(document: Any, pointer: str) -> tuple[Any, str]:
    """The map or list that a pointer leads into, and the key or index in it.

    What stands before the first slash is not looked at, so that "a/b" leads to "b".
    """
    steps = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    if not steps:
        raise JsonPatchError(f"{pointer!r} leads nowhere")
    holder = document
    for step in steps[:-1]:
        holder = _get(holder, step)
        if not isinstance(holder, dict | list):
            raise JsonPatchError(f"missing path {pointer!r}")
    return holder, steps[-1]


def _get(holder: Any, step: str) -> Any:
    """The value of a key, which is null for a missing one, or the item at an index."""
    return holder.get(step) if isinstance(holder, dict) else holder[_index(holder, step)]


def _index(items: list[Any], step: str, *, beyond: bool = False) -> int:
    """The index that a step names; with `beyond` also the one after the last, for adding."""
    if beyond and step == "-":
        return len(items)
    # A negative index counts from the end. Nine digits are more than any list has, and few enough
    # to convert.
    digits = step[1:] if step[:1] in {"+", "-"} else step
    if not digits.isdigit() or not digits.isascii() or len(digits) > 9:
        raise JsonPatchError(f"{step!r} is no index")
    at = int(step)
    at += len(items) + beyond if at < 0 else 0
    if not 0 <= at < len(items) + beyond:
        raise JsonPatchError(f"index {step} is out of bounds")
    return at


def _insert(document: Any, pointer: str, value: Any) -> Any:
    holder, last = _place(document, pointer)
    if isinstance(holder, dict):
        holder[last] = value
    else:
        holder.insert(_index(holder, last, beyond=True), value)
    return document


def _add(document: Any, operation: dict[str, Any]) -> Any:
    return _insert(document, _pointer(operation), copy.deepcopy(operation.get("value")))


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    holder, last = _place(document, _pointer(operation))
    _drop(holder, last)
    return document


def _drop(holder: Any, last: str) -> Any:
    """Remove and return; unlike reading, removing needs the key."""
    if isinstance(holder, list):
        return holder.pop(_index(holder, last))
    if last not in holder:
        raise JsonPatchError(f"missing key {last!r}")
    return holder.pop(last)


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    pointer, value = _pointer(operation), copy.deepcopy(operation.get("value"))
    if not pointer:
        if not isinstance(value, dict | list):
            raise JsonPatchError("the whole document can be replaced by an object or a list only")
        return value
    holder, last = _place(document, pointer)
    if isinstance(holder, dict):
        holder[last] = value  # also when there was none
    else:
        holder[_index(holder, last)] = value
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    holder, last = _place(document, _pointer(operation, "from"))
    return _insert(document, _pointer(operation), _drop(holder, last))


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    value = _get(*_place(document, _pointer(operation, "from")))
    if _n_values(value) > COPIES_MAX:
        raise JsonPatchError("the copy is too large")
    return _insert(document, _pointer(operation), copy.deepcopy(value))


def _test(document: Any, operation: dict[str, Any]) -> Any:
    # Without a value the test is one for null, which a missing key passes.
    pointer = _pointer(operation)
    found = _get(*_place(document, pointer)) if pointer else document
    if not _equal(found, operation.get("value")):
        raise JsonPatchError(f"testing value {pointer} failed")
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
