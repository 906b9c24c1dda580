"""Which resource the path of a request names, and which form its Accept header asks for. Pure.

Only JSON is served. A client that prefers protobuf gets JSON if its Accept header also lists JSON,
which is what kubectl and client-go send.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from swell.cluster.embedded.refusals import not_acceptable

ANY, ANY_APPLICATION = "*/*", "application/*"
META_GROUP, DISCOVERY_GROUP = "meta.k8s.io", "apidiscovery.k8s.io"


class ResourcePath(NamedTuple):
    """A path under `/api` or `/apis`, taken apart; a part that the path does not have is empty."""

    group: str
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Form(Enum):
    """The form in which objects are sent."""

    OBJECT = ""
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


class MediaRange(NamedTuple):
    """One alternative of an Accept header, with its parameters."""

    type: str
    form: str = ""
    group: str = ""
    version: str = ""
    quality: float = 1.0


_FORMS = {
    ("Table", META_GROUP, "v1"): Form.TABLE,
    ("PartialObjectMetadata", META_GROUP, "v1"): Form.PARTIAL,
    ("PartialObjectMetadataList", META_GROUP, "v1"): Form.PARTIAL_LIST,
    ("APIGroupDiscoveryList", DISCOVERY_GROUP, "v2"): Form.DISCOVERY,
}


def split_path(path: str) -> tuple[str, ...]:
    """The decoded segments of a path. A slash at its end is ignored."""
    segments = path.strip("/").split("/")
    return tuple(unquote(part) for part in segments) if "%" in path else tuple(segments)


def parse_resource_path(segments: tuple[str, ...]) -> ResourcePath | None:
    """The resource that a path under `/api` or `/apis` names; None when it can name none."""
    if segments[0] == "api":
        group, rest = "", segments[1:]
    elif len(segments) > 1:
        group, rest = segments[1], segments[2:]
    else:
        return None
    if not rest:
        return ResourcePath(group)
    return _below_version(group, rest[0], rest[1:]) if all(rest) else None


@lru_cache(maxsize=128)
def accepted_form(accept: str, *, anything: bool = False) -> Form:
    """The form that an Accept header prefers among those served; 406 when it takes none.

    With `anything`, `application/*` is understood, too: a real server does so for custom kinds.
    """
    if not accept.strip():
        return Form.OBJECT
    ranges = [_media_range(part) for part in accept.split(",") if part.strip()]
    # The sort is stable: among equal qualities the one named first wins.
    for media in sorted(ranges, key=lambda one: -one.quality):
        if media.type == "application/json" and media.form:
            form = _FORMS.get((media.form, media.group, media.version))
            if form is not None:
                return form
        elif media.type in {"application/json", ANY} or (
            anything and media.type == ANY_APPLICATION
        ):
            return Form.OBJECT
    raise not_acceptable()


def _below_version(group: str, version: str, rest: tuple[str, ...]) -> ResourcePath | None:
    namespace = ""
    # `namespaces/x` and `namespaces/x/status` are about a namespace, anything longer is inside it.
    of_namespace = rest[2:] in {(), ("status",), ("finalize",)}
    if len(rest) > 1 and rest[0] == "namespaces" and not (group == "" and of_namespace):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "", "")[:3]
    return ResourcePath(group, version, plural, namespace, name, subresource)


def _media_range(text: str) -> MediaRange:
    kind, *parameters = (part.strip() for part in text.split(";"))
    given = dict(_parameter(parameter) for parameter in parameters)
    try:
        quality = float(given.get("q", "1"))
    except ValueError:
        quality = 0.0
    form, group = given.get("as", ""), given.get("g", "")
    return MediaRange(kind, form, group, given.get("v", ""), quality)


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')
