"""A request for a resource: what it names, who asks, and the body that it sends.

Bodies are JSON, YAML or protobuf, in bounded size; duplicate fields are reported or refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import Identity
from swell.cluster.embedded.http import options
from swell.cluster.embedded.http.bodies import read_merged, read_reported_json, read_yaml
from swell.cluster.embedded.http.options import Query
from swell.cluster.embedded.http.payloads import parsed, read_body
from swell.cluster.embedded.http.protobuf import MEDIA_TYPE as PROTOBUF
from swell.cluster.embedded.http.protobuf import read_protobuf
from swell.cluster.embedded.http.responses import Representation
from swell.cluster.embedded.http.routing import JSON, ResourcePath
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.cluster import Patch, PatchKind
from swell.schema.field_errors import forbidden, required

# Subresources whose bodies are of another kind than the object.
_SUBRESOURCE_BODIES = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
}
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_PATCHES = {kind.value: kind for kind in PatchKind}


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """One HTTP request for a resource, with its path, query and Accept header parsed."""

    http: web.BaseRequest
    kind: ServedKind
    path: ResourcePath
    query: Query
    representation: Representation
    identity: Identity
    # Warnings for the response, also for one that refuses the request.
    warnings: list[str]

    @property
    def key(self) -> Key:
        return Key(self.path.namespace, self.path.name)

    @property
    def type_meta(self) -> tuple[str, str]:
        """The apiVersion and kind of a body that does not name them."""
        return _SUBRESOURCE_BODIES.get(
            self.path.subresource, (self.kind.api_version, self.kind.kind)
        )

    @property
    def actor(self) -> str:
        """The name under which commits record the client: its program, from User-Agent."""
        return self.http.headers.get("User-Agent", "").partition("/")[0][:64] or "unknown"

    def write_context(self, options_kind: str) -> RequestContext:
        context = options.write_context(self.query, self.actor, options_kind, self.warnings)
        context.identity = self.identity
        return context

    def delete_context(self, delete: options.DeleteRequest) -> RequestContext:
        return RequestContext(
            self.actor, delete.dry_run, warnings=self.warnings, identity=self.identity
        )


async def object_body(request: ResourceRequest, context: RequestContext) -> Body:
    """An object sent as JSON, YAML or protobuf; duplicate fields are reported or refused."""
    media = body_type(request)
    raw = await read_body(request.http)
    return await parsed(lambda sent: read_object(request, context, media, sent), raw)


def read_object(request: ResourceRequest, context: RequestContext, media: str, raw: bytes) -> Body:
    """The object of a body, which has been received as a whole."""
    if media == PROTOBUF:
        return read_protobuf(raw, request.type_meta)
    body: object
    if media in _YAML:
        body, found = read_yaml(raw)
        report_duplicates(found, context)
    else:
        body, found = read_reported_json(raw)
        if found:
            report_duplicates([f'duplicate field "{path}"' for path in found], context)
            # Go decodes the second value of a field of a known type into the first one.
            body = body if request.kind.custom else read_merged(raw)
    if body is None:
        return {}  # Go decodes null into an empty struct
    if not isinstance(body, dict):
        raise bad_request("the body is not a JSON object")
    return body


def read_patch(kind: PatchKind, raw: bytes, context: RequestContext) -> Patch:
    """The patch of a body; fields that it gives twice are noted."""
    read = read_reported_json(raw)
    if context.field_validation != "Ignore":
        context.duplicates = read.duplicates
    return Patch(kind, read.value)


def read_config(raw: bytes, context: RequestContext) -> Body:
    """The body of an apply."""
    body, found = read_yaml(raw)
    report_duplicates(found, context)
    if not isinstance(body, dict):
        raise bad_request("the body of an apply must be an object")
    return body


async def delete_request(request: ResourceRequest) -> options.DeleteRequest:
    """The options of a delete: from its body if it has one, else from its query."""
    raw = await read_body(request.http) if request.http.body_exists else b""
    if not raw:
        return options.delete_request_from_query(request.query)
    media = body_type(request)
    if media == PROTOBUF:
        return options.delete_request_from_body(read_protobuf(raw, ("v1", "DeleteOptions")))
    read = read_yaml if media in _YAML else read_reported_json
    return options.delete_request_from_body((await parsed(read, raw)).value)


def body_type(request: ResourceRequest) -> str:
    """The media type of a body; 415 when bodies of the kind have no such form."""
    media = _media_type(request.http)
    if media in {"", JSON, *_YAML} or (media == PROTOBUF and not request.kind.custom):
        return media
    # A real server has no messages for custom resources either.
    forms = (JSON, "application/yaml", *(() if request.kind.custom else (PROTOBUF,)))
    raise refusals.unsupported_media(media, *forms)


def patch_kind(request: ResourceRequest) -> PatchKind:
    media = _patch_type(request.http)
    kind = _PATCHES.get(media)
    if kind is None or (kind is PatchKind.STRATEGIC and request.kind.custom):
        # Custom resources have no merge keys, so strategic patches are not offered for them.
        known = [k for k in _PATCHES if not (request.kind.custom and "strategic" in k)]
        raise refusals.unsupported_media(media, *known)
    return kind


def check_patch_options(kind: PatchKind, context: RequestContext) -> None:
    """Refuse an apply without a manager, and the force of what is no apply."""
    errors = []
    if kind is PatchKind.APPLY and not context.manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if kind is not PatchKind.APPLY and context.force:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise refusals.invalid("PatchOptions", "meta.k8s.io", "", errors)


def _media_type(request: web.BaseRequest) -> str:
    """The media type without its parameters; empty when none is given."""
    given = request.headers.get("Content-Type", "")
    return given.partition(";")[0].strip().lower() or given


def _patch_type(request: web.BaseRequest) -> str:
    """The type of a patch; unlike others it is compared letter by letter."""
    return request.headers.get("Content-Type", "").partition(";")[0]


def report_duplicates(found: list[str], context: RequestContext) -> None:
    if not found or context.field_validation == "Ignore":
        return
    if context.field_validation == "Strict":
        raise refusals.strict_decoding("create", found)
    context.warnings.extend(found)
