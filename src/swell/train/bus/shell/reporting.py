"""The answer to a request for the report, which the leader gives. All others say who leads."""

from __future__ import annotations

import hashlib
import hmac
import json

from swell.api import injection

REQUEST_BYTES_MAX = 4096
_END = b"\r\n\r\n"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
}


def report_token(secret: bytes) -> str:
    """The token of those who may read the report."""
    return hmac.new(secret, injection.REPORT_TOKEN_LABEL, hashlib.sha256).hexdigest()


def answer_request(
    received: bytes, secret: bytes, report: bytes | None, leader: int | None
) -> bytes | None:
    """The whole answer; None while the request has no end. `report` is None unless we lead."""
    head, end, _ = received.partition(_END)
    if not end:
        return _reply(400, {"error": "the request is too long"}) if _is_long(received) else None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if not hmac.compare_digest(_token(lines).encode(), report_token(secret).encode()):
        return _reply(401, {"error": "the token is missing or wrong"})
    if method != "GET":
        return _reply(405, {"error": "the report can only be read"})
    if path != injection.REPORT_PATH:
        return _reply(404, {"error": "there is no such path"})
    if report is None:
        return _reply(404, {"leader": leader})
    return _reply(200, report)


def _is_long(received: bytes) -> bool:
    return len(received) > REQUEST_BYTES_MAX


def _token(lines: list[str]) -> str:
    fields = {name.strip().lower(): value.strip() for name, _, value in _parted(lines)}
    # An API server that passes a request on keeps its Authorization to itself.
    if injection.REPORT_TOKEN_HEADER.lower() in fields:
        return fields[injection.REPORT_TOKEN_HEADER.lower()]
    scheme, _, token = fields.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _parted(lines: list[str]) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in lines]


def _reply(code: int, body: bytes | dict[str, object]) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(raw)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + raw
