"""The verbs on collections, objects and subresources, from a request to the API server and back."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from swell.api import codec
from swell.api.meta import Body, Key, StatusDetails
from swell.cluster.embedded import refusals
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.http import options, responses
from swell.cluster.embedded.http.bodies import duplicate_fields, read_json, read_yaml
from swell.cluster.embedded.http.logs import LogSource, parse_log_request
from swell.cluster.embedded.http.options import Query
from swell.cluster.embedded.http.responses import Representation, representation_of
from swell.cluster.embedded.http.routing import Form, ResourcePath, accepted_form
from swell.cluster.embedded.http.watches import Watches
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import Deleted, RequestContext
from swell.runtime.cluster import Patch, PatchKind
from swell.schema.field_errors import invalid

BODY_BYTES_MAX = 3 << 20
_STREAMS = frozenset({"attach", "exec", "portforward"})
_WITHOUT_COLUMNS = frozenset({"binding", "eviction", "log"})
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_PATCHES = {kind.value: kind for kind in PatchKind}


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """One request, taken apart as far as all verbs need it."""

    request: web.BaseRequest
    kind: ServedKind
    address: ResourcePath
    query: Query
    view: Representation

    @property
    def key(self) -> Key:
        return Key(self.address.namespace, self.address.name)

    @property
    def actor(self) -> str:
        return self.request.headers.get("User-Agent", "").partition("/")[0][:64] or "unknown"


class Resources:
    def __init__(self, api: ApiServer, watches: Watches, logs: LogSource) -> None:
        self._api = api
        self._watches = watches
        self._logs = logs

    async def handle(
        self, request: web.BaseRequest, address: ResourcePath, query: Query
    ) -> web.StreamResponse:
        kind = self._kind(address)
        form = accepted_form(request.headers.get("Accept", ""))
        include = (query.get("includeObject") or [""])[0]
        view = representation_of(kind, form, include, self._api.clock.now())
        asked = ResourceRequest(request, kind, address, query, view)
        if address.subresource:
            return await self._subresource(asked)
        if address.name:
            return await self._object(asked)
        return await self._collection(asked)

    def _kind(self, address: ResourcePath) -> ServedKind:
        kind = self._api.registry.find(address.group, address.version, address.plural)
        if kind is None:
            raise refusals.unknown_path()
        misplaced = bool(address.namespace) and not kind.namespaced
        nowhere = kind.namespaced and address.name and not address.namespace
        unknown = address.subresource and address.subresource not in kind.subresources
        if unknown and kind.custom and not misplaced and not nowhere:
            # Of a custom resource the paths exist; what is not declared is not found.
            raise refusals.not_found(kind.plural, kind.group, address.name)
        if misplaced or nowhere or unknown:
            raise refusals.unknown_path()
        return kind

    # -- collections and objects -------------------------------------------------------------

    async def _collection(self, asked: ResourceRequest) -> web.StreamResponse:
        match asked.request.method:
            case "GET" if options.is_true(asked.query, "watch"):
                return await self._watch(asked)
            case "GET":
                return await self._list(asked)
            case "POST" if asked.address.namespace or not asked.kind.namespaced:
                return await self._create(asked)
            case "DELETE" if "deletecollection" in asked.kind.verbs:
                return await self._delete_collection(asked)
            case _:
                raise refusals.path_method_not_allowed()

    async def _object(self, asked: ResourceRequest) -> web.StreamResponse:
        match asked.request.method:
            case "GET":
                return await self._read(asked)
            case "PUT":
                return await self._update(asked)
            case "PATCH":
                return await self._patch(asked)
            case "DELETE":
                return await self._delete(asked)
            case _:
                raise refusals.path_method_not_allowed()

    async def _list(self, asked: ResourceRequest) -> web.StreamResponse:
        chosen = options.list_options(asked.query, asked.address.namespace)
        page = await self._api.answer(lambda: self._api.list(asked.kind, chosen))
        return responses.of_bytes(asked.view.page(page))

    async def _watch(self, asked: ResourceRequest) -> web.StreamResponse:
        chosen = options.watch_options(asked.query, asked.address.namespace)
        timeout_s = options.number(asked.query, "timeoutSeconds")
        watch = await self._api.answer(lambda: self._api.watch(asked.kind, chosen))
        return await self._watches.serve(
            asked.request,
            watch,
            asked.view,
            timeout_s=timeout_s,
            bookmarks=chosen.bookmarks,
        )

    async def _create(self, asked: ResourceRequest) -> web.StreamResponse:
        call = options.write_call(asked.query, asked.actor, "CreateOptions")
        body = await _object_body(asked.request, call)
        namespace = asked.address.namespace
        stored = await self._api.answer(lambda: self._api.create(asked.kind, namespace, body, call))
        return responses.of_bytes(asked.view.object(stored), 201, call.warnings)

    async def _update(self, asked: ResourceRequest) -> web.StreamResponse:
        call = options.write_call(asked.query, asked.actor, "UpdateOptions")
        body = await _object_body(asked.request, call)
        sub = asked.address.subresource
        written = await self._api.answer(
            lambda: self._api.update(asked.kind, asked.key, body, call, subresource=sub)
        )
        shown = asked.view.object(written.stored)
        return responses.of_bytes(shown, 201 if written.created else 200, call.warnings)

    async def _patch(self, asked: ResourceRequest) -> web.StreamResponse:
        kind = _patch_kind(asked)
        call = options.write_call(asked.query, asked.actor, "PatchOptions")
        raw = await _read(asked.request)
        patch = Patch(kind, read_json(raw))
        _report_duplicates(raw, patch.body, call, patched=asked)
        sub = asked.address.subresource
        stored = await self._api.answer(
            lambda: self._api.patch(asked.kind, asked.key, patch, call, subresource=sub)
        )
        return responses.of_bytes(asked.view.object(stored), 200, call.warnings)

    async def _delete(self, asked: ResourceRequest) -> web.StreamResponse:
        deletion = await _deletion(asked)
        call = RequestContext(asked.actor, deletion.dry_run)
        deleted = await self._api.answer(
            lambda: self._api.delete(asked.kind, asked.key, deletion.options, call)
        )
        waits = not deleted.gone and deletion.options.orphan_dependents is False
        shown = self._deleted(asked, deleted)
        return responses.of_bytes(shown, 202 if waits else 200, call.warnings)

    def _deleted(self, asked: ResourceRequest, deleted: Deleted) -> bytes:
        kind = asked.kind
        if not deleted.gone or kind.returns_deleted:
            return asked.view.object(deleted.stored)
        details = StatusDetails(
            name=asked.address.name, group=kind.group, kind=kind.plural, uid=deleted.stored.uid
        )
        return codec.encode(responses.success(details=details))

    async def _delete_collection(self, asked: ResourceRequest) -> web.StreamResponse:
        chosen = options.list_options(asked.query, asked.address.namespace)
        deletion = await _deletion(asked)
        call = RequestContext(asked.actor, deletion.dry_run)
        page = await self._api.answer(
            lambda: self._api.delete_collection(asked.kind, chosen, deletion.options, call)
        )
        return responses.of_bytes(asked.view.page(page), 200, call.warnings)

    # -- subresources ------------------------------------------------------------------------

    async def _subresource(self, asked: ResourceRequest) -> web.StreamResponse:
        if asked.view.form is Form.TABLE and asked.address.subresource in _WITHOUT_COLUMNS:
            raise refusals.not_acceptable()
        match asked.address.subresource, asked.request.method:
            case (("status" | "scale"), ("GET" | "PUT" | "PATCH")):
                return await self._part(asked)
            case "finalize", "PUT":
                return await self._update(asked)
            case (("binding" | "eviction"), "POST"):
                return await self._pod_order(asked)
            case "log", "GET":
                return await self._log(asked)
            case name, ("GET" | "POST") if name in _STREAMS:
                raise refusals.not_implemented(name)
            case name, _ if name in {"status", "scale", "finalize", "binding", "eviction", "log"}:
                raise refusals.path_method_not_allowed()
            case _:
                raise refusals.unknown_path()

    async def _part(self, asked: ResourceRequest) -> web.StreamResponse:
        match asked.request.method:
            case "PUT":
                return await self._update(asked)
            case "PATCH":
                return await self._patch(asked)
        return await self._read(asked)

    async def _pod_order(self, asked: ResourceRequest) -> web.StreamResponse:
        call = options.write_call(asked.query, asked.actor, "CreateOptions")
        body = await _object_body(asked.request, call)
        verb = self._api.bind if asked.address.subresource == "binding" else self._api.evict
        await self._api.answer(lambda: verb(asked.kind, asked.key, body, call))
        return responses.of_body(responses.success(201), 201, call.warnings)

    async def _log(self, asked: ResourceRequest) -> web.StreamResponse:
        pod = (await self._api.answer(lambda: self._api.get(asked.kind, asked.key))).body
        wanted = parse_log_request(pod, asked.query)
        if not (pod.get("spec") or {}).get("nodeName"):
            return web.Response(status=204)
        pieces = self._logs.read(pod, wanted)
        first = await anext(pieces, b"")  # a refusal must come before the answer has begun
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(asked.request)
        await response.write(first)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    async def _read(self, asked: ResourceRequest) -> web.StreamResponse:
        version = (asked.query.get("resourceVersion") or [""])[0]

        def read() -> Stored:
            if asked.address.subresource == "scale":
                return self._api.get_scale(asked.kind, asked.key)
            return self._api.get(asked.kind, asked.key, version)

        return responses.of_bytes(asked.view.object(await self._api.answer(read)))


# -- bodies ----------------------------------------------------------------------------------


async def _read(request: web.BaseRequest) -> bytes:
    """The whole body, unless it is too large."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise refusals.too_large(BODY_BYTES_MAX)
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise refusals.too_large(BODY_BYTES_MAX)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _object_body(request: web.BaseRequest, call: RequestContext) -> Body:
    """An object sent as JSON or YAML; duplicate fields are reported or refused."""
    media = _media_type(request)
    if media in _YAML:
        body = read_yaml(await _read(request))
    elif media in {"", responses.JSON}:
        raw = await _read(request)
        body = read_json(raw)
        _report_duplicates(raw, body, call)
    else:
        raise refusals.unsupported_media(media, responses.JSON, "application/yaml")
    if body is None:
        return {}  # as Go reads null into a struct
    if not isinstance(body, dict):
        raise bad_request("the body is not a JSON object")
    return body


async def _deletion(asked: ResourceRequest) -> options.DeleteRequest:
    """Options from the body if there is one, else from the query; never from both."""
    media = _media_type(asked.request)
    raw = await _read(asked.request) if asked.request.body_exists else b""
    if not raw:
        return options.delete_request_from_query(asked.query)
    if media in _YAML:
        return options.delete_request_from_body(read_yaml(raw))
    if media not in {"", responses.JSON}:
        raise refusals.unsupported_media(media, responses.JSON, "application/yaml")
    return options.delete_request_from_body(read_json(raw))


def _patch_kind(asked: ResourceRequest) -> PatchKind:
    media = _media_type(asked.request)
    kind = _PATCHES.get(media)
    if kind is None or (kind is PatchKind.STRATEGIC and asked.kind.custom):
        known = [k for k in _PATCHES if not (asked.kind.custom and "strategic" in k)]
        raise refusals.unsupported_media(media, *known)
    return kind


def _media_type(request: web.BaseRequest) -> str:
    """The media type without its parameters; empty when none is given."""
    given = request.headers.get("Content-Type", "")
    return given.partition(";")[0].strip().lower() or given


def _report_duplicates(
    raw: bytes, body: object, call: RequestContext, patched: ResourceRequest | None = None
) -> None:
    if call.field_validation == "Ignore":
        return
    found = [f'duplicate field "{path}"' for path in duplicate_fields(raw, body)]
    if not found:
        return
    if call.field_validation != "Strict":
        call.warnings.extend(found)
        return
    if patched is None:
        raise bad_request(f"strict decoding error: {', '.join(found)}")
    kind = patched.kind
    error = invalid("patch", ", ".join(found), "strict decoding error")
    raise refusals.invalid(kind.kind, kind.group, patched.address.name, [error])
