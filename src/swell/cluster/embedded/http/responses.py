"""Responses: objects in the form a client asked for, Status objects, watch lines, headers.

Objects are stored as JSON, so the plain form of an object, a list or a watch event is put together
from bytes that are encoded already.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import web
from multidict import CIMultiDict

from swell.api import codec
from swell.api.meta import Body, Status, StatusDetails
from swell.cluster.embedded.http.routing import JSON, META_GROUP, Accepted, Form
from swell.cluster.embedded.http.tables.table import partial, table
from swell.cluster.embedded.refusals import bad_request, not_acceptable
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import Page, StoredEvent
from swell.runtime.cluster import EventType
from swell.runtime.errors import ClusterError

WARNINGS_MAX = 32  # clients read a bounded number of headers
WARNING_LENGTH_MAX = 256
# An answer beyond this is sent in pieces of about the other size.
STREAMED_BYTES_MIN = 256 << 10
PIECE_BYTES = 256 << 10
# Handed to a connection at one time: what a client does not read is held encrypted, for each one.
# Up to this many bytes the HTTP library does not wait for the connection to take them.
SLICE_BYTES = 64 << 10
LINE_END = b"\n"
INCLUDES = ("", "None", "Metadata", "Object")
# Kubernetes' annotation on the bookmark that ends the initial events of a streamed list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_HEADERS = CIMultiDict({"Content-Type": JSON, "Cache-Control": "no-cache, private"})


def of_bytes(body: bytes, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """A response with a body that is encoded as JSON already.

    Go ends every JSON text with a line, and `kubectl get --raw` prints what it gets. A long one
    gets its end when it is sent, so that all who read a large object share its bytes.
    """
    if len(body) <= STREAMED_BYTES_MIN:
        body += LINE_END
    return web.Response(body=body, status=code, headers=headers(warnings))


def headers(warnings: Sequence[str] = ()) -> CIMultiDict[str]:
    """The headers of a JSON answer; every warning is one of its own."""
    made = _HEADERS.copy()
    for text in list(dict.fromkeys(warnings))[:WARNINGS_MAX]:
        made.add("Warning", f'299 - "{_quotable(text)}"')
    return made


def of_body(body: Body, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    return of_bytes(codec.encode(body), code, warnings)


def of_text(text: str, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code)


def of_refusal(error: ClusterError, warnings: Sequence[str] = ()) -> web.Response:
    """The Status of an error, with its code and, where it has one, its Retry-After."""
    response = of_body(status_body(error.status), error.status.code, warnings)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(int(error.retry_after_s))
    return response


def success(code: int = 0, details: StatusDetails | None = None) -> Body:
    """The Status of a request that succeeded and leaves no object to send.

    A real server says the code of a binding, but not that of a delete.
    """
    return status_body(Status(status="Success", code=code, details=details))


def status_body(status: Status) -> Body:
    """A Status as a server sends it: with metadata, which is empty."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **codec.to_body(status)}


def event_line(kind: str, encoded: bytes) -> bytes:
    """One line of a watch."""
    return b"".join(event_parts(kind, encoded))


def event_parts(kind: str, encoded: bytes) -> tuple[bytes, bytes, bytes]:
    """The same in parts, so that a large object need not be copied for it."""
    return b'{"type":"%s","object":' % kind.encode(), encoded, b"}\n"


@dataclass(frozen=True, slots=True)
class Representation:
    """The form in which one request wants the objects of one kind, and the encoder to it."""

    kind: ServedKind
    form: Form
    now: float
    include: str = "Metadata"
    meta_version: str = f"{META_GROUP}/v1"

    def object(self, stored: Stored) -> bytes:
        """One object. As on a real server, a list was asked for in vain only after the write."""
        if self.form is Form.PARTIAL_LIST:
            raise not_acceptable()
        return self._one(stored)

    def _one(self, stored: Stored) -> bytes:
        if self.form is Form.TABLE:
            meta = {"resourceVersion": str(stored.version)}
            return codec.encode(self._table([stored.copy()], meta))
        if self.form in {Form.PARTIAL, Form.PARTIAL_LIST}:
            return codec.encode(self._partial(stored.copy()))
        return stored.raw

    def page(self, page: Page) -> bytes:
        """A list, or a part of one."""
        return b"".join(self.page_pieces(page))

    def page_pieces(self, page: Page) -> Iterator[bytes | memoryview]:
        """The same in pieces of bounded size, as far as objects are passed on as bytes."""
        meta: Body = {"resourceVersion": str(page.version)}
        if page.continue_token:
            meta["continue"] = page.continue_token
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
        if self.form is Form.TABLE:
            # Decoded one by one, and not kept: all objects of a large list would take ten times
            # the memory of their bytes.
            bodies = (stored.copy() for stored in page.items)
            yield codec.encode(self._table(bodies, meta))
            return
        if self.form is Form.PARTIAL:
            raise not_acceptable()
        if self.form is Form.PARTIAL_LIST and not page.items:
            kind, version = "PartialObjectMetadataList", self.meta_version
            empty = {"kind": kind, "apiVersion": version, "metadata": meta, "items": None}
            yield codec.encode(empty)  # what Go makes of a list that was never filled
            return
        if self.form is Form.PARTIAL_LIST:
            encoded = (codec.encode(self._partial(stored.copy())) for stored in page.items)
            yield from _list_pieces("PartialObjectMetadataList", self.meta_version, meta, encoded)
            return
        name = self.kind.list_kind or f"{self.kind.kind}List"
        if self.kind.custom:
            # The list of a custom kind is a plain map: nothing is left out for being empty.
            meta.setdefault("continue", "")
            raws: Iterable[bytes | memoryview] = (stored.raw for stored in page.items)
        else:
            raws = (_without_type(stored, self.kind) for stored in page.items)
        opening = b"" if self.kind.custom else b"{"
        yield from _list_pieces(name, self.kind.api_version, meta, raws, opening)

    def shared_parts(self, event: StoredEvent) -> tuple[bytes, bytes, bytes] | None:
        """The line of an event with a large object as it is stored: no watch makes a copy of it."""
        stored = event.stored
        if stored is None or self.form is not Form.OBJECT or len(stored.raw) <= PIECE_BYTES:
            return None
        return event_parts(event.type.value, stored.raw)

    def event(self, event: StoredEvent, *, first: bool) -> bytes:
        """One line of a watch. Only the table of the first event has column definitions."""
        if event.stored is None:
            mark = self._bookmark(event, first=first)
            return event_line(EventType.BOOKMARK.value, codec.encode(mark))
        if self.form is Form.TABLE:
            meta = {"resourceVersion": str(event.version)}
            encoded = codec.encode(self._table([event.stored.body], meta, headed=first))
        else:
            encoded = self._one(event.stored)
        return event_line(event.type.value, encoded)

    def check(self) -> None:
        """Refuse a table that cannot be made; otherwise a write or read is done before that."""
        if self.form is Form.TABLE and self.include not in INCLUDES:
            raise bad_request(f"unrecognized includeObject value: {self.include!r}")

    def _table(self, bodies: Iterable[Body], meta: Body, *, headed: bool = True) -> Body:
        self.check()
        return table(
            self.kind,
            bodies,
            meta,
            include=self.include,
            now=self.now,
            headed=headed,
            api_version=self.meta_version,
        )

    def _partial(self, body: Body) -> Body:
        return partial(body, self.meta_version)

    def _bookmark(self, event: StoredEvent, *, first: bool) -> Body:
        meta: Body = {"resourceVersion": str(event.version)}
        if event.ends_initial:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        mark = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": meta}
        if self.form is Form.TABLE:
            # A row of an object without a name. What it marks is said in the row alone.
            version = {"resourceVersion": str(event.version)}
            return self._table([mark], version, headed=first)
        if self.form in {Form.PARTIAL, Form.PARTIAL_LIST}:
            return self._partial(mark)
        return {**mark, **self.kind.empty}


def representation_of(
    kind: ServedKind, accepted: Accepted, include: str, now: float
) -> Representation:
    """The representation a request asks for; `include` is its query's includeObject."""
    meta_version = f"{META_GROUP}/{accepted.meta_version}"
    return Representation(kind, accepted.form, now, include or "Metadata", meta_version)


def to_yaml(encoded: bytes) -> bytes:
    """Encode JSON as YAML, with sorted keys as a real server has them."""
    import yaml

    value = codec.decode(encoded, object)
    # The dumper takes several frames a level. Where they do not suffice the text stays as it is:
    # JSON is YAML, too.
    with contextlib.suppress(RecursionError):
        text: str = yaml.dump(
            value, Dumper=yaml.CSafeDumper, default_flow_style=False, width=1 << 20
        )
        return text.encode()
    return encoded


def prettify(encoded: bytes) -> bytes:
    """Indent JSON for people to read."""
    return json.dumps(json.loads(encoded), indent=2, ensure_ascii=False).encode()


def body_bytes(response: web.StreamResponse) -> bytes:
    """The body of an answer that is not sent yet; `null` of one without, or of a stream."""
    body = response.body if isinstance(response, web.Response) else None
    return body if isinstance(body, bytes) else b"null"


def is_long(response: web.StreamResponse) -> bool:
    """Whether an answer is to be sent in pieces; a stream has been sent already."""
    return not response.prepared and len(body_bytes(response)) > STREAMED_BYTES_MIN


def _without_type(stored: Stored, kind: ServedKind) -> bytes | memoryview:
    """An encoded object without its apiVersion and kind, which only the list of it says, and
    without its first brace.

    Both nearly always stand first, so that the rest need not be encoded again, or even copied.
    """
    for head in _type_heads(kind.api_version, kind.kind):
        if stored.raw.startswith(head):
            return memoryview(stored.raw)[len(head) :]
    rest = {k: v for k, v in stored.copy().items() if k not in {"apiVersion", "kind"}}
    return memoryview(codec.encode(rest))[1:]


@lru_cache(maxsize=128)
def _type_heads(api_version: str, kind: str) -> tuple[bytes, bytes]:
    one, other = b'"apiVersion":%s,' % codec.encode(api_version), b'"kind":%s,' % codec.encode(kind)
    return b"{" + one + other, b"{" + other + one


def _list_pieces(
    kind: str,
    api_version: str,
    meta: Body,
    items: Iterable[bytes | memoryview],
    opening: bytes = b"",
) -> Iterator[bytes | memoryview]:
    """A list of objects that are encoded already, but for what opens each of them.

    A large one is passed on by itself, so that all who list it share its bytes.
    """
    head = codec.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})
    batch: list[bytes | memoryview] = [head[:-1], b',"items":[']
    size, before = 0, opening
    for item in items:
        batch.append(before)
        before = b"," + opening
        if len(item) > PIECE_BYTES:
            yield b"".join(batch)
            yield item
            batch, size = [], 0
            continue
        batch.append(item)
        size += len(item)
        if size > PIECE_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    yield b"".join((*batch, b"]}"))


async def stream(
    request: web.BaseRequest,
    pieces: Iterable[bytes | memoryview],
    headers: CIMultiDict[str],
    limit_s: float,
    code: int = 200,
) -> web.StreamResponse:
    """Send a large answer piece by piece, no faster than its client reads.

    Other requests have their turn between two pieces, and a client that reads slowly holds one of
    them. One that reads nothing for so long is disconnected.
    """
    response = web.StreamResponse(status=code, headers=headers)
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        for piece in pieces:
            await write_in_slices(response, piece, limit_s)
        await response.write_eof()
    except TimeoutError:
        # The client reads nothing, so an orderly end would wait for it, too.
        if request.transport is not None:
            request.transport.abort()
    return response


async def write_in_slices(
    response: web.StreamResponse, piece: bytes | memoryview, limit_s: float
) -> None:
    """Send bytes that others may send, too; TimeoutError when the client reads none for so long."""
    whole = memoryview(piece)
    for start in range(0, len(piece), SLICE_BYTES):
        async with asyncio.timeout(limit_s):
            await response.write(whole[start : start + SLICE_BYTES])


def _quotable(text: str) -> str:
    """A warning fit for a header: one line, no quote that ends it early, bounded in length."""
    line = "".join(char if char.isprintable() else " " for char in text[:WARNING_LENGTH_MAX])
    return line.replace("\\", "\\\\").replace('"', '\\"')
