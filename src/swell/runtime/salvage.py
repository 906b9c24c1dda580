"""Reads as much as can be read of an object that cannot be decoded. Pure.

The result is a placeholder of the object's own type: what can be read is as the server has it, and
a field of a wrong type keeps the value that it had when it could last be read. A field that could
never be read is left out and named, so that a consumer to which it matters can take the side of
caution. So an object that holds something goes on holding it until it is corrected or deleted.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from swell.api.codec import convert, to_body
from swell.api.meta import Body, ObjectMeta
from swell.api.resource import ApiObject
from swell.runtime.cluster import Malformed

T = TypeVar("T", bound=ApiObject)

# The end of a message of msgspec, such as: Expected `str`, got `int` - at `$.metadata.labels[...]`
_AT = re.compile(r"at `(?:key in )?\$([^`]*)`$")
# An object with more wrong fields than this is read as its metadata alone. Each costs one decoding.
_FIELDS_MAX = 32
# A map with more entries than this is dropped as a whole instead of entry by entry.
_ENTRIES_MAX = 64


@dataclass(frozen=True, slots=True)
class Placeholder(Generic[T]):
    """An object as far as it is known. `unknown` has the paths of fields never readable so far."""

    object: T
    unknown: tuple[str, ...] = ()


def salvage(found: Malformed, struct: type[T], last: Placeholder[T] | None) -> Placeholder[T]:
    """Returns the placeholder of a malformed object. `last` is the state known before, if any."""
    body, unknown = deepcopy(found.body), dict[str, None]()
    known = to_body(last.object) if last is not None else {}
    for _ in range(_FIELDS_MAX):
        try:
            whole = convert(body, struct)
        except msgspec.ValidationError as error:
            path = _path_of(error)
            # Nothing that can be left out: the object itself, or all of its metadata, is wrong.
            if not path or not _put_right(body, path, struct, known):
                break
            was_known = last is not None and ".".join(path) not in last.unknown
            if not was_known:
                unknown[".".join(path)] = None
        else:
            return Placeholder(_identified(whole, found), tuple(unknown))
    if last is not None:
        return Placeholder(_identified(last.object, found), last.unknown)
    return Placeholder(_identified(convert({}, struct), found), ("metadata", "spec", "status"))


def _path_of(error: msgspec.ValidationError) -> tuple[str, ...]:
    """Returns the field to replace: the wrong one, or the outermost list or map that holds it.

    The entries of a list belong together, and their places may have changed since.
    """
    match = _AT.search(str(error))
    if match is None:
        return ()
    return tuple(match[1].partition("[")[0].strip(".").split(".")) if match[1] else ()


def _put_right(body: Body, path: tuple[str, ...], struct: type[T], known: Body) -> bool:
    """Give a field its last readable value, or leave it out. Returns whether anything changed."""
    *above, name = path
    holder: Any = body
    for step in above:
        holder = holder.get(step) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or name not in holder:
        return False
    last: Any = known
    for step in path:
        last = last.get(step) if isinstance(last, dict) else None
    wrong = holder.pop(name)
    if last is not None and last != wrong:
        holder[name] = last
    elif isinstance(wrong, dict) and len(wrong) <= _ENTRIES_MAX:
        holder[name] = _readable_entries(body, holder, path, wrong, struct)
    return True


def _readable_entries(
    body: Body, holder: Body, path: tuple[str, ...], wrong: Body, struct: type[T]
) -> Body:
    """Returns the entries of a map that can be read, each tried by itself in its place."""
    right: Body = {}
    for key, value in wrong.items():
        holder[path[-1]] = {key: value}
        try:
            convert(body, struct)
        except msgspec.ValidationError as error:
            if _path_of(error)[: len(path)] == path:
                continue
        right[key] = value
    return right


def _identified(whole: T, found: Malformed) -> T:
    """Returns the object with its identity and version as the server has stored them."""
    metadata: ObjectMeta = msgspec.structs.replace(
        whole.metadata,
        namespace=found.key.namespace,
        name=found.key.name,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    replaced: T = msgspec.structs.replace(whole, metadata=metadata)  # type: ignore[type-var]
    return replaced
