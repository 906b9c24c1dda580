"""Answers as aiohttp sends them: bytes already encoded, Status objects, lists, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiohttp import web
from multidict import CIMultiDict

from swell.api import codec
from swell.api.meta import Body, Status, StatusDetails
from swell.runtime.errors import ClusterError

JSON = "application/json"
WARNINGS_MAX = 32  # clients read a bounded number of headers
WARNING_LENGTH_MAX = 256
_HEADERS = CIMultiDict({"Content-Type": JSON, "Cache-Control": "no-cache, private"})


def of_bytes(body: bytes, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    headers = _HEADERS.copy()
    for text in warnings[:WARNINGS_MAX]:
        headers.add("Warning", f'299 - "{_quotable(text)}"')
    return web.Response(body=body, status=code, headers=headers)


def of_body(body: Body, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    return of_bytes(codec.encode(body), code, warnings)


def of_text(text: str, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code)


def refusal(error: ClusterError) -> web.Response:
    answer = of_body(status_body(error.status), error.status.code)
    if error.retry_after_s:
        answer.headers["Retry-After"] = str(int(error.retry_after_s))
    return answer


def success(code: int = 200, details: StatusDetails | None = None) -> Body:
    """The Status of something done that leaves no object to show."""
    return status_body(Status(status="Success", code=code, details=details))


def status_body(status: Status) -> Body:
    """A Status as a server sends it: with metadata, which is empty."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **codec.to_body(status)}


def list_bytes(kind: str, api_version: str, meta: Body, items: Iterable[bytes]) -> bytes:
    """A list of objects that are encoded already."""
    head = codec.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})
    return b"".join((head[:-1], b',"items":[', b",".join(items), b"]}"))


def _quotable(text: str) -> str:
    """Fit for a header: one line, no quotes that end it early, bounded."""
    line = "".join(char if char.isprintable() else " " for char in text[:WARNING_LENGTH_MAX])
    return line.replace("\\", "\\\\").replace('"', '\\"')
