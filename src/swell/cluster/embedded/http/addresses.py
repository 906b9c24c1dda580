"""What a URL path names: a collection, an object, a subresource, or none of these. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class Address(NamedTuple):
    """A place under `/api` or `/apis`; empty parts were not given."""

    group: str
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> tuple[str, ...]:
    """The path's decoded segments; a slash at the end means nothing."""
    segments = path.strip("/").split("/")
    return tuple(unquote(part) for part in segments) if "%" in path else tuple(segments)


def find_address(segments: tuple[str, ...]) -> Address | None:
    """The address of a path under `/api` or `/apis`; None when there can be none."""
    if segments[0] == "api":
        group, rest = "", segments[1:]
    elif len(segments) > 1:
        group, rest = segments[1], segments[2:]
    else:
        return None
    if not rest:
        return Address(group)
    return _below(group, rest[0], rest[1:]) if all(rest) else None


def _below(group: str, version: str, rest: tuple[str, ...]) -> Address | None:
    namespace = ""
    # `namespaces/x` and `namespaces/x/status` are about a namespace, anything longer is inside it.
    of_namespace = rest[2:] in {(), ("status",), ("finalize",)}
    if len(rest) > 1 and rest[0] == "namespaces" and not (group == "" and of_namespace):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "", "")[:3]
    return Address(group, version, plural, namespace, name, subresource)
