"""What the Accept header asks for: objects, a table, bare metadata, or a form of discovery. Pure.

Only JSON is spoken. A client that would rather have protobuf gets JSON as long as it also takes
that, which is how kubectl and client-go ask.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from swell.cluster.embedded.refusals import not_acceptable

ANY = "*/*"  # `application/*` is not understood, as on a real server
META_GROUP, DISCOVERY_GROUP = "meta.k8s.io", "apidiscovery.k8s.io"


class Form(Enum):
    """How objects are shown."""

    OBJECT = ""
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    DISCOVERY = "APIGroupDiscoveryList"


class Media(NamedTuple):
    """One alternative of an Accept header."""

    type: str
    shown_as: str = ""
    group: str = ""
    version: str = ""
    quality: float = 1.0


# A list of bare metadata has a name of its own, but means the same thing.
_FORMS = {
    ("Table", META_GROUP, "v1"): Form.TABLE,
    ("PartialObjectMetadata", META_GROUP, "v1"): Form.PARTIAL,
    ("PartialObjectMetadataList", META_GROUP, "v1"): Form.PARTIAL,
    ("APIGroupDiscoveryList", DISCOVERY_GROUP, "v2"): Form.DISCOVERY,
}


@lru_cache(maxsize=128)
def form_wanted(accept: str) -> Form:
    """The best form the client takes; NotAcceptable when there is none."""
    if not accept.strip():
        return Form.OBJECT
    offers = [_media(part) for part in accept.split(",") if part.strip()]
    for media in sorted(offers, key=lambda offer: -offer.quality):
        if media.type == "application/json" and media.shown_as:
            form = _FORMS.get((media.shown_as, media.group, media.version))
            if form is not None:
                return form
        elif media.type in {"application/json", ANY}:
            return Form.OBJECT
    raise not_acceptable()


def _media(text: str) -> Media:
    kind, *parameters = (part.strip() for part in text.split(";"))
    given = dict(_pair(parameter) for parameter in parameters)
    try:
        quality = float(given.get("q", "1"))
    except ValueError:
        quality = 0.0
    shown_as, group = given.get("as", ""), given.get("g", "")
    return Media(kind.lower(), shown_as, group, given.get("v", ""), quality)


def _pair(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.strip().lower(), value.strip().strip('"')
