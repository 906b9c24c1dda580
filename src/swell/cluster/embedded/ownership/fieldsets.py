"""Paths of fields, and sets of them in the form FieldsV1 of `metadata.managedFields`.

A path is a tuple of steps, each written as in FieldsV1:

    f:NAME          a field of an object, or an entry of a map
    k:{"KEY":...}   the item of a list that has these values of its keys
    v:VALUE         a value of a list that is a set

In FieldsV1 steps are nested objects. An empty object is a member of the set; one that has further
steps is a member only if it has the step `.` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swell.api.codec import decode, encode
from swell.api.meta import Body

FieldPath = tuple[str, ...]
FieldSet = frozenset[FieldPath]
_SELF = "."


def field_step(name: str) -> str:
    return f"f:{name}"


def key_step(keys: Body) -> str:
    """The step to the item of a list with these values of its keys."""
    return "k:" + encode({name: keys[name] for name in sorted(keys)}).decode()


def value_step(value: object) -> str:
    return "v:" + encode(value).decode()


def to_fields(paths: Iterable[FieldPath]) -> Body:
    """Returns a set of paths as FieldsV1."""
    members = set(paths)
    root: Body = {}
    for path in sorted(members):
        place = root
        for step in path:
            place = place.setdefault(step, {})
    for path in members:
        place = root
        for step in path:
            place = place[step]
        if place:
            place[_SELF] = {}
    return root


def from_fields(fields: Body) -> FieldSet:
    """Returns the paths in FieldsV1; ValueError for what is none."""
    return frozenset(_members(fields, ()))


def _members(fields: object, path: FieldPath) -> Iterator[FieldPath]:
    if not isinstance(fields, dict):
        raise ValueError(f"{path}: no object")
    if path and (not fields or _SELF in fields):
        yield path
    for step, inner in fields.items():
        if step == _SELF:
            continue
        if step[:2] not in {"f:", "k:", "v:", "i:"}:
            raise ValueError(f"{step!r} is no step of a path")
        yield from _members(inner, (*path, step))


def path_order(path: FieldPath) -> tuple[tuple[bool, str], ...]:
    """Returns a key that sorts paths as a real server lists them: fields before what is deeper."""
    return tuple((at < len(path) - 1, step) for at, step in enumerate(path))


def path_text(path: FieldPath) -> str:
    """Returns a path as people read it: `.spec.containers[name="a"].image`."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    kind, rest = step[:2], step[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "v:":
        return f"[={rest}]"
    if kind == "i:":
        return f"[{rest}]"
    keys = decode(rest.encode(), dict)
    return "[" + ",".join(f"{name}={encode(value).decode()}" for name, value in keys.items()) + "]"
