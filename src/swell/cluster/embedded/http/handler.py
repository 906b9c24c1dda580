"""The entry point of every request: identity, path and rights, then a resource or a document.

It is one function without middlewares, because every write pays for what happens here.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from swell import __version__
from swell.api.codec import encode
from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.copies import backup_pieces
from swell.cluster.embedded.http import discovery, openapi, openapi2, responses
from swell.cluster.embedded.http.forks import Forks, elsewhere
from swell.cluster.embedded.http.gate import UNANSWERED, Gate, Passage
from swell.cluster.embedded.http.metrics import METRICS, ServerMetrics
from swell.cluster.embedded.http.options import is_true, parse_query
from swell.cluster.embedded.http.payloads import PARSED_INLINE_BYTES_MAX
from swell.cluster.embedded.http.resources import Resources
from swell.cluster.embedded.http.routing import (
    JSON,
    YAML,
    Form,
    ResourcePath,
    encoding_of,
    negotiate,
)
from swell.cluster.embedded.http.watches import STALL_S
from swell.cluster.embedded.registry import ServedKind
from swell.runtime.errors import ClusterError

KUBERNETES = "v1.36.3"  # the version whose behaviour this server has
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
# One answer for all: a server that answers is healthy.
_HEALTH = frozenset({"healthz", "livez", "readyz"})
_TOPS = frozenset({*_HEALTH, "", "api", "apis", METRICS, "openapi", "version"})
REWRITTEN_BYTES_MAX = 8 << 20
# The path of a backup: the whole store, as `copies` writes it. It is not a path of Kubernetes.
BACKUP = ("swell", "backup")
# Documents of a router that knows methods; a real server gives the others for any method.
_GET_ONLY = frozenset({"api", "version"})
_DISCOVERY_FORMS = frozenset({Form.OBJECT, Form.DISCOVERY})
_OBJECT_ONLY = frozenset({Form.OBJECT})
# Accept headers of the OpenAPI documents; a real server compares these letter by letter.
_JSON_RANGES = frozenset({"", "*", "*/*", "application/*", JSON})
_TEXT = "text/plain; charset=utf-8"  # the type Go guesses for the index of schemas
# Prometheus' type of its text format.
_METRICS_HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_DISCOVERY_TYPE = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Handler:
    """Answers all requests of one server."""

    def __init__(
        self, api: ApiServer, resources: Resources, gate: Gate, port: int, *, metrics: ServerMetrics
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._resources = resources
        self._gate = gate
        self._port = port
        self._forks = Forks()
        self._documents: dict[str, bytes] = {}
        self._revision = -1

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        passage = Passage.of(request)
        code = UNANSWERED
        try:
            response = await self._answer(passage)
            code = response.status
        finally:
            self._gate.left(passage, code)
        accept = _accept(request)
        if "yaml" in accept and (response.status >= 400 or not _is_plain(request)):
            if encoding_of(accept, is_status=response.status >= 400) == YAML:
                await self._rewrite(responses.to_yaml, response, YAML)
        elif "pretty" in request.query_string and is_true(
            parse_query(request.query_string), "pretty"
        ):
            await self._rewrite(responses.prettify, response, JSON)
        if responses.is_long(response):
            body = responses.body_bytes(response)
            headers = response.headers
            headers.popall("Content-Length", None)
            is_ended = body.endswith(responses.LINE_END) or response.content_type != JSON
            pieces = [body] if is_ended else [body, responses.LINE_END]
            return await responses.stream(request, pieces, headers, STALL_S, response.status)
        return response

    async def _rewrite(
        self, rewrite: Callable[[bytes], bytes], response: web.StreamResponse, media: str
    ) -> None:
        """Rewrite an answer of JSON; a large one elsewhere: it takes about a second a megabyte.

        The largest stay plain JSON, which is YAML, too; and so does a stream.
        """
        body = responses.body_bytes(response)
        if not isinstance(response, web.Response) or response.content_type != JSON:
            return
        if len(body) > REWRITTEN_BYTES_MAX:
            return
        if len(body) <= PARSED_INLINE_BYTES_MAX:
            made = rewrite(body)
        else:
            made = await elsewhere(self._forks, lambda: rewrite(body), len(body))
        response.body = made
        response.headers["Content-Type"] = media

    async def _answer(self, passage: Passage) -> web.StreamResponse:
        request, segments, resource = passage.request, passage.segments, passage.resource
        try:
            identity = self._gate.admit(passage)
            if passage.path.startswith("//") or not self._is_routed(segments, resource):
                return responses.of_text("404 page not found\n", 404)
            if resource is not None and resource.plural:
                query = parse_query(passage.query)
                return await self._resources.handle(request, resource, query, identity)
            if segments == BACKUP and request.method == "GET":
                return await self._send_backup(request)
            response = self._document(request, segments, resource)
            # What is not there is missing for every method.
            versioned = resource is not None and resource.version
            get_only = versioned or (len(segments) == 1 and segments[0] in _GET_ONLY)
            if request.method != "GET" and get_only and response.status == 200:
                raise refusals.path_method_not_allowed()
        except ClusterError as error:
            return responses.of_refusal(error)
        return response

    def _is_routed(self, segments: tuple[str, ...], resource: ResourcePath | None) -> bool:
        """Whether a path begins with something that is served.

        As on a real server, other paths are answered with a text and not with a Status, from which
        client libraries make a message of their own.
        """
        if resource is not None:
            return self._api.registry.is_routed(*resource[:3]) and not _is_namespace_of(resource)
        return segments[0] in _TOPS or segments == BACKUP

    async def _send_backup(self, request: web.BaseRequest) -> web.StreamResponse:
        """Everything in the store as of one version. It goes on being written meanwhile."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in backup_pieces(self._api.storage):
            # A client that stopped reading must not hold old states in memory for ever.
            await responses.write_in_slices(response, piece, STALL_S)
        await response.write_eof()
        return response

    def _document(
        self, request: web.BaseRequest, segments: tuple[str, ...], resource: ResourcePath | None
    ) -> web.Response:
        """The paths that are no resource: health, version, discovery, schemas."""
        if len(segments) == 1 and (own := self._own_document(request, segments[0])) is not None:
            return own
        if segments[0] in {"api", "apis"}:
            return self._discovery(request, segments, resource)
        if segments[:2] == ("openapi", "v3"):
            path = "/".join(segments[2:])
            if path and not _takes_json(request):
                return web.Response(status=406)
            response = self._cached(f"openapi {path}", lambda: self._schemas(path))
            if not path:
                response.headers["Content-Type"] = _TEXT
            return response
        if segments == ("openapi", "v2"):
            return self._second_openapi(request)
        if segments == ("",):
            return responses.of_body({"paths": ["/api", "/apis", "/healthz", "/openapi/v3"]})
        return responses.of_text("404 page not found\n", 404)

    def _own_document(self, request: web.BaseRequest, top: str) -> web.Response | None:
        """The documents about the server itself; None when a path is of another."""
        if top in _HEALTH:
            return responses.of_text("ok")
        if top == METRICS:
            return web.Response(text=self._metrics.exposition(), headers=_METRICS_HEADERS)
        if top != "version":
            return None
        if not {"", "*/*", JSON} & _media_types(request):
            raise refusals.not_acceptable()
        return responses.of_body(_version())

    def _discovery(
        self, request: web.BaseRequest, segments: tuple[str, ...], resource: ResourcePath | None
    ) -> web.Response:
        kinds = self._api.registry
        if len(segments) == 1:
            core = segments[0] == "api"
            form = negotiate(_accept(request), _DISCOVERY_FORMS, routed=core).form
            if form is Form.DISCOVERY:
                response = self._cached(
                    f"aggregated {core}", lambda: discovery.aggregated(kinds, core=core)
                )
                response.headers["Content-Type"] = _DISCOVERY_TYPE
                return response
            if core:
                return responses.of_body(discovery.core_versions(self._port))
            return self._cached("groups", lambda: discovery.group_list(kinds))
        if resource is None:
            raise refusals.unknown_path()
        negotiate(_accept(request), _OBJECT_ONLY, routed=bool(resource.version))
        group, version = resource.group, resource.version
        if not version:
            if discovery.group(kinds, group) is None:
                return responses.of_text("404 page not found\n", 404)
            return self._cached(f"group {group}", lambda: discovery.group(kinds, group))
        return self._cached(
            f"resources {group}/{version}", lambda: discovery.resource_list(kinds, group, version)
        )

    def _schemas(self, path: str) -> Body | None:
        registry = self._api.registry
        if not path:
            return openapi.index(registry, registry.revision)
        return openapi.document(list(registry), path, self._custom_schema)

    def _second_openapi(self, request: web.BaseRequest) -> web.Response:
        """The document of version 2, in protobuf for the clients that ask for it."""

        def made() -> Body:
            return openapi2.document(self._api.registry, self._custom_schema)

        if openapi2.PROTOBUF_ASKED not in _accept(request):
            if not _takes_json(request):
                return web.Response(status=406)
            return self._cached("openapi2", made)
        encoded = self._document_bytes("openapi2 protobuf", lambda: openapi2.protobuf(made()))
        return web.Response(body=encoded, headers={"Content-Type": openapi2.PROTOBUF})

    def _custom_schema(self, kind: ServedKind) -> Body | None:
        """The schema of a custom kind, from its definition."""
        stored = self._api.storage.get(DEFINITIONS, Key("", kind.resource))
        versions = stored.body["spec"]["versions"] if stored else []
        found: Body = next((v for v in versions if v["name"] == kind.version), {})
        schema: Body | None = (found.get("schema") or {}).get("openAPIV3Schema")
        return schema

    def _cached(self, name: str, make: Callable[[], Body | None]) -> web.Response:
        return responses.of_bytes(self._document_bytes(name, make))

    def _document_bytes(self, name: str, make: Callable[[], Body | bytes | None]) -> bytes:
        """A document, cached until the served kinds change; 404 when there is none."""
        if self._revision != self._api.registry.revision:
            self._revision = self._api.registry.revision
            self._documents.clear()
        cached = self._documents.get(name)
        if cached is None:
            made = make()
            if made is None:
                raise refusals.unknown_path()
            cached = self._documents[name] = made if isinstance(made, bytes) else encode(made)
        return cached


def _is_namespace_of(path: ResourcePath) -> bool:
    """Whether a path ends at a namespace below a group, where nothing is."""
    return bool(path.group and path.namespace and not path.plural)


def _version() -> Body:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+swell.{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def _accept(request: web.BaseRequest) -> str:
    return request.headers.get("Accept", "")


def _is_plain(request: web.BaseRequest) -> bool:
    """Whether the path is of a document that has no YAML form."""
    return request.path.startswith(("/openapi", "/version"))


def _takes_json(request: web.BaseRequest) -> bool:
    """Whether the OpenAPI documents, which are negotiated by themselves, may be sent as JSON."""
    return bool(_JSON_RANGES & _media_types(request))


def _media_types(request: web.BaseRequest) -> set[str]:
    """The media types of the Accept header, without parameters."""
    return {part.partition(";")[0].strip() for part in _accept(request).split(",")}
