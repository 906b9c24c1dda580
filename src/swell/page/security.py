"""The headers of every answer, and which requests are refused before anything is looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

# Only this server's own files run or are shown; no page may frame it, no form leaves it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Forms and links of other sites cannot set it, so a request that has it comes from our script.
OWN_HEADER = "X-Swell-Page"


def add_headers(response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def guard(hosts: frozenset[str]) -> Middleware:
    """Returns a middleware: known host names only, writes by our own script only, headers on all.

    A page of another name that resolves to this machine (DNS rebinding) is of another origin; its
    requests name its own host. An empty set takes any host: an ingress has names of its own.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        problem = _problem(request, hosts)
        if problem:
            response: web.StreamResponse = web.json_response({"error": problem}, status=403)
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = web.json_response({"error": error.reason}, status=error.status)
        if not response.prepared:
            add_headers(response)
        return response

    return middleware


def _problem(request: web.Request, hosts: frozenset[str]) -> str:
    if hosts and _host(f"//{request.host}") not in hosts:
        return "this server has another name"
    if "Content-Encoding" in request.headers:
        # To inflate it would let a few bytes of anybody take the time of everybody.
        return "bodies are not to be compressed"
    if request.method in {"GET", "HEAD"}:
        return ""
    if request.headers.get(OWN_HEADER) != "1":
        return "writes are for the page's own script"
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.host:
        return "this request comes from another site"
    return ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets without an address of version 6 between them
        return ""
