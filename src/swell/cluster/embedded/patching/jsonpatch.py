"""JSON patches (RFC 6902), as lenient as the library that a real API server applies them with.

A key that a map does not have reads as null: it can be tested for null, copied and replaced. Only
removing and moving need it. An operation without a value has the value null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swell.api.codec import decode, encode
from swell.schema.scalars import JSON_TYPES

# All copies of one patch together, as kube-apiserver bounds them: repeated copies could double the
# object each time.
COPIED_BYTES_MAX = 3 << 20
# A list or map takes much longer to copy and to check than its two bytes in JSON.
CONTAINER_BYTES = 32
# Items that stand behind inserted and removed ones: some tenths of a second of moving memory.
SHIFTED_MAX = 100_000_000
# Moves can nest values one level deeper with every two operations.
DEPTH_MAX = 500


class JsonPatchError(Exception):
    """An operation cannot be applied to the document."""


def apply_operations(document: Any, operations: Sequence[dict[str, Any] | None]) -> Any:
    """The patched document; the given one is not changed."""
    try:
        return _applied(_duplicate(document), operations)
    except RecursionError as error:  # moves nested it, and a test compared it
        raise JsonPatchError("the result is nested too deeply") from error


def _applied(patched: Any, operations: Sequence[dict[str, Any] | None]) -> Any:
    copied_bytes = shifted = 0
    for given in operations:
        operation = given or {}
        name = operation.get("op")
        run = OPERATIONS.get(name) if isinstance(name, str) else None
        if run is None:
            raise JsonPatchError(f"unexpected kind: {name}")
        if run is _copy:
            copied_bytes += _copied_size(patched, operation)
            if copied_bytes > COPIED_BYTES_MAX:
                raise JsonPatchError(
                    f"unable to copy, the accumulated size increase of copy operation is "
                    f"{copied_bytes}, exceeding the limit {COPIED_BYTES_MAX}"
                )
        patched = run(patched, operation)
        shifted += _n_shifted(patched, operation)
        if shifted > SHIFTED_MAX:
            raise JsonPatchError(f"the operations shift more than {SHIFTED_MAX:,} items of lists")
    measure(patched, math.inf)
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
    return _insert(document, _pointer(operation), _duplicate(operation.get("value")))


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
    pointer, value = _pointer(operation), _duplicate(operation.get("value"))
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
    return _insert(document, _pointer(operation), _duplicate(value))


def _n_shifted(document: Any, operation: dict[str, Any]) -> int:
    """At most how many items of a list the operation has shifted."""
    pointer = operation.get("path")
    if operation.get("op") not in {"add", "remove", "move", "copy"} or not isinstance(pointer, str):
        return 0
    holder, _ = _place(document, pointer)
    return len(holder) if isinstance(holder, list) else 0


def _duplicate(value: Any) -> Any:
    """A copy that shares nothing. Encoding and decoding is the fastest there is (ADR 7)."""
    return decode(encode(value), object) if isinstance(value, dict | list) else value


def _copied_size(document: Any, operation: dict[str, Any]) -> int:
    return measure(_get(*_place(document, _pointer(operation, "from"))), COPIED_BYTES_MAX)


def measure(value: Any, enough: float) -> int:
    """About the number of bytes of a value in JSON; counting ends when there are enough.

    JsonPatchError when the value is nested so deeply that copying or encoding it would recurse
    too far.
    """
    size = 0
    waiting = [(value, 0)]
    while waiting and size <= enough:
        one, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise JsonPatchError(f"the result is nested more than {DEPTH_MAX} deep")
        if isinstance(one, dict):
            size += CONTAINER_BYTES + sum(len(name) + 4 for name in one)
            waiting.extend((inner, depth + 1) for inner in one.values())
        elif isinstance(one, list):
            size += CONTAINER_BYTES + len(one)
            waiting.extend((inner, depth + 1) for inner in one)
        else:
            size += len(one) + 2 if isinstance(one, str) else 8
    return size


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


OPERATIONS: Mapping[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
