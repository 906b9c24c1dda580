"""Requests for resources: which verb a method and path mean, its parameters, and its response.

A path names a collection, an object or a subresource.
"""

from __future__ import annotations

import contextlib
from functools import partial

from aiohttp import web

from swell.api import codec
from swell.api.meta import Body, Key, StatusDetails
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import Identity, RequestAttributes
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.http import options, responses
from swell.cluster.embedded.http.forks import Forks, elsewhere
from swell.cluster.embedded.http.largewrites import LargeWrites
from swell.cluster.embedded.http.logs import (
    LogSource,
    parse_log_request,
    send_log,
    with_container,
)
from swell.cluster.embedded.http.options import Query
from swell.cluster.embedded.http.payloads import (
    PARSED_INLINE_BYTES_MAX,
    LargeBodies,
    off_loop,
    parsed,
    read_body,
)
from swell.cluster.embedded.http.resource_request import (
    ResourceRequest,
    body_type,
    check_patch_options,
    delete_request,
    object_body,
    patch_kind,
    read_config,
    read_object,
    read_patch,
)
from swell.cluster.embedded.http.responses import representation_of
from swell.cluster.embedded.http.routing import (
    OBJECT_FORMS,
    YAML,
    Form,
    ResourcePath,
    negotiate,
)
from swell.cluster.embedded.http.streams import (
    CommandSource,
    serve_attach,
    serve_exec,
    serve_port_forward,
)
from swell.cluster.embedded.http.tables.table import scale_kind
from swell.cluster.embedded.http.tunnels import is_tunnel, serve_tunnel
from swell.cluster.embedded.http.watches import Watches
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.selectors import CACHED_LENGTH_MAX, SelectorError, parse_labels
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import Deleted, Page, RequestContext
from swell.cluster.embedded.verbs.writing import PendingWrite
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.errors import ClusterError

_READS = frozenset({"GET", "HEAD"})
_NOT_ALLOWED = 405
# Bidirectional streams.
_STREAMS = frozenset({"attach", "exec", "portforward"})
# Subresources that no table can be made of.
_WITHOUT_COLUMNS = frozenset({"binding", "eviction", "log"})


class Resources:
    """Handles every request whose path names a resource."""

    def __init__(
        self,
        api: ApiServer,
        watches: Watches,
        logs: LogSource,
        commands: CommandSource | None = None,
    ) -> None:
        self._api = api
        self._watches = watches
        self._logs = logs
        self._commands = commands
        self._large_bodies = LargeBodies()
        self._forks = Forks()
        self._large_writes = LargeWrites(api, self._forks)

    async def handle(
        self, http: web.BaseRequest, path: ResourcePath, query: Query, identity: Identity
    ) -> web.StreamResponse:
        if _is_bindings(path) and http.method == "POST":
            return await self._bind_by_body(http, path, query, identity)
        if self._is_misplaced(path, http.method):
            return responses.of_text("404 page not found\n", 404)
        kind = self._kind(path)
        # A table of what has no columns is passed over.
        forms = OBJECT_FORMS - ({Form.TABLE} if path.subresource in _WITHOUT_COLUMNS else set())
        accepted = negotiate(http.headers.get("Accept", ""), forms, routed=not kind.custom)
        include = (query.get("includeObject") or [""])[0]
        shown = scale_kind(kind) if path.subresource == "scale" else kind
        representation = representation_of(shown, accepted, include, self._api.clock.now())
        warnings = [kind.deprecation] if kind.deprecation else []
        request = ResourceRequest(http, kind, path, query, representation, identity, warnings)
        try:
            async with self._large_bodies.room_for(http):
                return await self._routed(request)
        except ClusterError as error:
            # What is not routed is answered before the version of a kind is looked at.
            routed = error.status.code != _NOT_ALLOWED
            return responses.of_refusal(error, warnings if routed else ())

    async def _routed(self, request: ResourceRequest) -> web.StreamResponse:
        if request.path.subresource:
            return await self._subresource(request)
        if request.path.name:
            return await self._object(request)
        return await self._collection(request)

    def _is_misplaced(self, path: ResourcePath, method: str) -> bool:
        """Whether a path of a custom kind does not fit its scope.

        A real server leaves it to the next handler, of which there is none: that is no Status.
        """
        kind = self._api.registry.find(path.group, path.version, path.plural)
        if kind is None or not kind.custom:
            return False
        if not kind.namespaced:
            return bool(path.namespace)
        return not path.namespace and bool(path.name or method not in _READS)

    def _kind(self, path: ResourcePath) -> ServedKind:
        """The kind served at a path; 404 when the path does not fit the kind's scope or parts."""
        kind = self._api.registry.find(path.group, path.version, path.plural)
        if kind is None:
            raise refusals.unknown_path()
        wrong_scope = bool(path.namespace) and not kind.namespaced
        no_namespace = kind.namespaced and path.name and not path.namespace
        unknown = path.subresource and path.subresource not in kind.subresources
        if unknown and kind.custom and not wrong_scope and not no_namespace:
            # A real server routes every subresource of a custom resource, and then finds nothing.
            raise refusals.not_found(kind.plural, kind.group, path.name)
        if wrong_scope or no_namespace or unknown or (kind.is_review and path.name):
            raise refusals.unknown_path()
        return kind

    async def _bind_by_body(
        self, http: web.BaseRequest, path: ResourcePath, query: Query, identity: Identity
    ) -> web.StreamResponse:
        """A binding sent to the collection of bindings: the pod is named in the body alone."""
        target = path._replace(plural="pods", subresource="binding")
        kind = self._kind(target)
        accepted = negotiate(http.headers.get("Accept", ""), OBJECT_FORMS - {Form.TABLE})
        shown = representation_of(kind, accepted, "", self._api.clock.now())
        request = ResourceRequest(http, kind, target, query, shown, identity, [])
        context = request.write_context("CreateOptions")
        try:
            body = await object_body(request, context)
            metadata = body.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if not name or not isinstance(name, str):
                raise bad_request("name is required")
            key = Key(path.namespace, name)
            await self._api.answer(lambda: self._api.bind(kind, key, body, context))
        except ClusterError as error:
            return responses.of_refusal(error, request.warnings)
        return responses.of_body(responses.success(201), 201, context.warnings)

    # -- collections and objects -------------------------------------------------------------

    async def _collection(self, request: ResourceRequest) -> web.StreamResponse:
        # A write to all namespaces would not say where its objects belong.
        placed = bool(request.path.namespace) or not request.kind.namespaced
        match _method(request):
            case "GET" if request.kind.is_review:
                raise refusals.path_method_not_allowed()
            case "GET" if options.is_true(request.query, "watch"):
                return await self._watch(request)
            case "GET":
                return await self._list(request)
            case "POST" if placed:
                return await self._create(request)
            case "DELETE" if "deletecollection" in request.kind.verbs and placed:
                return await self._delete_collection(request)
            case "PUT" | "PATCH" if request.kind.custom and placed:
                # A real server routes these for custom kinds, and then misses the name.
                raise bad_request("name must be provided")
            case _:
                raise _method_refusal(request)

    async def _object(self, request: ResourceRequest) -> web.StreamResponse:
        match _method(request):
            case "GET":
                return await self._read(request)
            case "PUT":
                return await self._update(request)
            case "PATCH":
                return await self._patch(request)
            case "DELETE":
                return await self._delete(request)
            case "POST" if request.kind.custom:
                return await self._create(request)  # the name in the path is not looked at
            case _:
                raise _method_refusal(request)

    async def _parse_selectors(self, request: ResourceRequest) -> None:
        """Parse long selectors off the loop; the verb finds the result, or the same refusal."""
        for text in request.query.get("labelSelector") or ():
            if len(text) > CACHED_LENGTH_MAX:
                with contextlib.suppress(SelectorError):
                    await off_loop(partial(parse_labels, text))

    async def _list(self, request: ResourceRequest) -> web.StreamResponse:
        await self._parse_selectors(request)
        chosen = options.list_options(request.query, request.path.namespace)
        page = await self._api.answer(lambda: self._api.list(request.kind, chosen))
        return await self._page(request, page, request.warnings)

    async def _page(
        self, request: ResourceRequest, page: Page, warnings: list[str]
    ) -> web.StreamResponse:
        """A list: a small one at once, a large one in pieces or made off the loop."""
        shown, n_bytes = request.representation, sum(len(stored.raw) for stored in page.items)
        if n_bytes <= PARSED_INLINE_BYTES_MAX:
            return responses.of_bytes(shown.page(page), 200, warnings)
        if shown.form is Form.OBJECT:
            if n_bytes > responses.STREAMED_BYTES_MIN and not _is_rewritten(request.http):
                head = responses.headers(warnings)
                pieces = shown.page_pieces(page)
                return await responses.stream(request.http, pieces, head, self._watches.stall_s)
            return responses.of_bytes(shown.page(page), 200, warnings)
        made = await elsewhere(self._forks, lambda: shown.page(page), n_bytes)
        return responses.of_bytes(made, 200, warnings)

    async def _watch(self, request: ResourceRequest) -> web.StreamResponse:
        if negotiate(request.http.headers.get("Accept", ""), routed=False).media == YAML:
            raise refusals.not_acceptable()  # YAML has no streams
        request.representation.check()
        await self._parse_selectors(request)
        chosen = options.watch_options(request.query, request.path.namespace)
        timeout_s = options.number(request.query, "timeoutSeconds")
        watch = await self._api.answer(lambda: self._api.watch(request.kind, chosen))
        return await self._watches.serve(
            request.http,
            watch,
            request.representation,
            timeout_s=timeout_s,
            bookmarks=chosen.bookmarks,
            warnings=request.warnings,
        )

    async def _create(self, request: ResourceRequest) -> web.StreamResponse:
        context = request.write_context("CreateOptions")
        media, raw = body_type(request), await read_body(request.http)
        kind, namespace = request.kind, request.path.namespace

        def body() -> Body:
            return read_object(request, context, media, raw)

        def decide() -> PendingWrite:
            return self._api.decide_create(kind, namespace, body(), context)

        written = await self._large_writes.answer(request, None, context, decide, len(raw))
        if written is not None:
            stored = written.stored
        else:
            read = await parsed(lambda _: body(), raw)
            stored = await self._large_writes.small(
                kind, lambda: self._api.create(kind, namespace, read, context)
            )
        return responses.of_bytes(request.representation.object(stored), 201, context.warnings)

    async def _update(self, request: ResourceRequest) -> web.StreamResponse:
        context = request.write_context("UpdateOptions")
        media, raw = body_type(request), await read_body(request.http)
        kind, key, subresource = request.kind, request.key, request.path.subresource

        def body() -> Body:
            return read_object(request, context, media, raw)

        def decide() -> PendingWrite:
            return self._api.decide_update(kind, key, body(), context, subresource)

        written = await self._large_writes.answer(request, key, context, decide, len(raw))
        if written is None:
            read = await parsed(lambda _: body(), raw)
            written = await self._large_writes.small(
                kind, lambda: self._api.update(kind, key, read, context, subresource=subresource)
            )
        updated = request.representation.object(written.stored)
        return responses.of_bytes(updated, 201 if written.created else 200, context.warnings)

    async def _patch(self, request: ResourceRequest) -> web.StreamResponse:
        kind = patch_kind(request)
        context = request.write_context("PatchOptions")
        check_patch_options(kind, context)
        raw = await read_body(request.http)
        if kind is PatchKind.APPLY:
            return await self._apply(request, context, raw)
        # A missing object is noticed before a patch that is none.
        current = await self._api.answer(lambda: self._api.get(request.kind, request.key))
        subresource = request.path.subresource

        def patch() -> Patch:
            return read_patch(kind, raw, context)

        def decide() -> PendingWrite:
            return self._api.decide_patch(request.kind, request.key, patch(), context, subresource)

        # Operations of a patch may copy each other's results, so that they count several times.
        size = 4 * len(raw) + len(current.raw)
        written = await self._large_writes.answer(request, request.key, context, decide, size)
        if written is not None:
            stored = written.stored
        else:
            read = await parsed(lambda _: patch(), raw)
            stored = await self._large_writes.small(
                request.kind,
                lambda: self._api.patch(
                    request.kind, request.key, read, context, subresource=subresource
                ),
            )
        return responses.of_bytes(request.representation.object(stored), 200, context.warnings)

    async def _apply(
        self, request: ResourceRequest, context: RequestContext, raw: bytes
    ) -> web.StreamResponse:
        """A server-side apply; unlike a patch it creates an object that is missing."""
        kind, key, subresource = request.kind, request.key, request.path.subresource

        def body() -> Body:
            return read_config(raw, context)

        def decide() -> PendingWrite:
            return self._api.decide_apply(kind, key, body(), context, subresource)

        written = await self._large_writes.answer(request, key, context, decide, len(raw))
        if written is None:
            read = await parsed(lambda _: body(), raw)
            written = await self._large_writes.small(
                kind, lambda: self._api.apply(kind, key, read, context, subresource)
            )
        shown = request.representation.object(written.stored)
        return responses.of_bytes(shown, 201 if written.created else 200, context.warnings)

    async def _delete(self, request: ResourceRequest) -> web.StreamResponse:
        delete = await delete_request(request)
        context = request.delete_context(delete)
        deleted = await self._api.answer(
            lambda: self._api.delete(request.kind, request.key, delete.options, context)
        )
        # 202 tells a client of the deprecated option that dependents are still being deleted.
        waits = not deleted.gone and delete.options.orphan_dependents is False
        body = self._deleted(request, deleted)
        return responses.of_bytes(body, 202 if waits else 200, context.warnings)

    def _deleted(self, request: ResourceRequest, deleted: Deleted) -> bytes:
        kind = request.kind
        if not deleted.gone or kind.returns_deleted:
            return request.representation.object(deleted.stored)
        details = StatusDetails(
            name=request.path.name, group=kind.group, kind=kind.plural, uid=deleted.stored.uid
        )
        return codec.encode(responses.success(details=details))

    async def _delete_collection(self, request: ResourceRequest) -> web.StreamResponse:
        await self._parse_selectors(request)
        chosen = options.list_options(request.query, request.path.namespace)
        delete = await delete_request(request)
        context = request.delete_context(delete)
        page = await self._api.delete_collection(request.kind, chosen, delete.options, context)
        return await self._page(request, page, context.warnings)

    # -- subresources ------------------------------------------------------------------------

    async def _subresource(self, request: ResourceRequest) -> web.StreamResponse:
        match request.path.subresource, request.http.method:
            case (("status" | "scale"), ("GET" | "PUT" | "PATCH")):
                return await self._subobject(request)
            case "finalize", "PUT":
                return await self._update(request)
            case (("binding" | "eviction"), "POST"):
                return await self._pod_verb(request)
            case "log", "GET":
                return await self._log(request)
            case name, ("GET" | "POST") if name in _STREAMS:
                return await self._stream(request)
            case name, _ if name in {"status", "scale", "finalize", "binding", "eviction", "log"}:
                raise _method_refusal(request)
            case _:
                raise refusals.unknown_path()

    async def _subobject(self, request: ResourceRequest) -> web.StreamResponse:
        match request.http.method:
            case "PUT":
                return await self._update(request)
            case "PATCH":
                return await self._patch(request)
        return await self._read(request)

    async def _pod_verb(self, request: ResourceRequest) -> web.StreamResponse:
        context = request.write_context("CreateOptions")
        body = await object_body(request, context)
        verb = self._api.bind if request.path.subresource == "binding" else self._api.evict
        await self._api.answer(lambda: verb(request.kind, request.key, body, context))
        return responses.of_body(responses.success(201), 201, context.warnings)

    async def _stream(self, request: ResourceRequest) -> web.StreamResponse:
        name, path = request.path.subresource, request.path
        pod = (await self._api.answer(lambda: self._api.get(request.kind, request.key))).body
        # A WebSocket begins as a GET, which must not do what its user may not do by a POST.
        wanted = RequestAttributes(
            "create", "", path.plural, name, namespace=path.namespace, name=path.name
        )
        decision = self._api.access.decide(request.identity, wanted)
        if not decision.allowed:
            raise refusals.not_allowed(request.identity, wanted, decision.reason)
        if name == "exec":
            return await serve_exec(request.http, pod, request.query, self._commands)
        if name == "portforward" and is_tunnel(request.http):
            return await serve_tunnel(request.http, pod)
        if name == "portforward":
            return await serve_port_forward(request.http, pod, request.query)
        return await serve_attach(request.http, pod, request.query, self._logs)

    async def _log(self, request: ResourceRequest) -> web.StreamResponse:
        asked = parse_log_request(request.path.name, request.query)
        pod = (await self._api.answer(lambda: self._api.get(request.kind, request.key))).body
        wanted = with_container(asked, pod)
        if not (pod.get("spec") or {}).get("nodeName"):
            return web.Response(status=204)  # not on a node yet: an empty log
        return await send_log(request.http, self._logs.read(pod, wanted), self._watches.stall_s)

    async def _read(self, request: ResourceRequest) -> web.StreamResponse:
        version = (request.query.get("resourceVersion") or [""])[0]
        for name in ("export", "exact"):
            if options.is_true(request.query, name):
                raise bad_request(f"the {name!r} parameter is not supported any more")

        def read() -> Stored:
            if request.path.subresource == "scale":
                return self._api.get_scale(request.kind, request.key)
            return self._api.get(request.kind, request.key, version)

        found = request.representation.object(await self._api.answer(read))
        return responses.of_bytes(found, 200, request.warnings)


def _is_rewritten(http: web.BaseRequest) -> bool:
    """Whether the answer becomes YAML or indented JSON, for which it is needed as a whole."""
    return "yaml" in http.headers.get("Accept", "") or "pretty" in http.query_string


def _is_bindings(path: ResourcePath) -> bool:
    """Whether a path is that of a namespace's bindings, which can be created only."""
    return (
        path.plural == "bindings"
        and bool(path.namespace)
        and path == ResourcePath("", "v1", "bindings", path.namespace)
    )


def _method(request: ResourceRequest) -> str:
    """The method; a HEAD of a custom resource is a GET, that of a built-in one is not routed."""
    method = request.http.method
    return "GET" if method == "HEAD" and request.kind.custom else method


def _method_refusal(request: ResourceRequest) -> ClusterError:
    return refusals.path_method_not_allowed(request.kind if request.kind.custom else None)
