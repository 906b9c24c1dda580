"""Which resource the path of a request names, and which form its Accept header asks for. Pure.

JSON and YAML are served. A client that prefers protobuf gets JSON if its Accept header also lists
JSON, which is what kubectl and client-go send.

A real server looks at the header twice: its router wants one of the types it produces, letter by
letter, then one of them is chosen by quality. Custom kinds and some documents have no such router.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from swell.cluster.embedded.refusals import not_acceptable
from swell.runtime.errors import ClusterError

ANY, ANY_APPLICATION = "*/*", "application/*"
JSON, YAML = "application/json", "application/yaml"
META_GROUP, DISCOVERY_GROUP = "meta.k8s.io", "apidiscovery.k8s.io"
# Protobuf is routed, but never chosen: see above.
_ROUTED = frozenset({ANY, JSON, YAML, "application/vnd.kubernetes.protobuf"})


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


class Accepted(NamedTuple):
    """The form and the encoding of an answer; `meta_version` is that of tables and metadata."""

    form: Form = Form.OBJECT
    media: str = JSON
    meta_version: str = "v1"


_META_VERSIONS = ("v1", "v1beta1")
_META_FORMS = (Form.TABLE, Form.PARTIAL, Form.PARTIAL_LIST)
_FORMS = {(form.value, META_GROUP, v): form for form in _META_FORMS for v in _META_VERSIONS}
_FORMS["APIGroupDiscoveryList", DISCOVERY_GROUP, "v2"] = Form.DISCOVERY
OBJECT_FORMS = frozenset({Form.OBJECT, *_META_FORMS})


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
def negotiate(
    accept: str, forms: frozenset[Form] = OBJECT_FORMS, *, routed: bool = True
) -> Accepted:
    """The answer that an Accept header prefers among the forms offered; 406 when it takes none.

    Alternatives in forms that are not offered are passed over.
    """
    if not accept.strip():
        return Accepted()
    ranges = [_media_range(part) for part in accept.split(",") if part.strip()]
    if routed and not any(media.type in _ROUTED for media in ranges):
        raise not_acceptable()
    # The sort is stable: among equal qualities the one named first wins.
    for media in sorted(ranges, key=lambda one: -one.quality):
        if media.type not in {JSON, YAML, ANY, "*", ANY_APPLICATION}:
            continue
        form = Form.OBJECT
        if media.form:
            form = _FORMS.get((media.form, media.group, media.version), Form.OBJECT)
        if form in forms and bool(media.form) == (form is not Form.OBJECT):
            encoding = YAML if media.type == YAML else JSON
            return Accepted(form, encoding, media.version or "v1")
    raise not_acceptable()


def encoding_of(accept: str, *, is_status: bool) -> str:
    """The encoding of an answer: JSON, unless the header prefers YAML. A Status has one form."""
    forms = frozenset({Form.OBJECT}) if is_status else OBJECT_FORMS
    try:
        return negotiate(accept, forms, routed=False).media
    except ClusterError:
        return JSON


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
