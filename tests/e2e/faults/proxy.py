"""Stands before an API server and spoils what a plan says: answers, connections, watches.

A fault strikes the n-th request or event of its kind, never a moment in time. Every write that got
through is remembered, with what was answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum

import aiohttp
from aiohttp import web

from swell.api.meta import Body

HOLD_S = 0.3
_FOR_EVER_S = 3600.0
LINE_MAX = 4 << 20
_PATH = re.compile(
    r"^/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)
# A server packs large answers for whoever says that it can unpack them: our clients do not say so.
_PACKING = {"Accept-Encoding": "identity"}
_KEPT = ("Authorization", "Content-Type", "Accept")


class Fault(Enum):
    CONFLICT = "409"
    ERROR = "500"
    LOST = "reply held, then lost"
    HELD = "reply held for ever"
    KEPT = "request held for ever"  # it never reaches the server
    LATE = "reply held for a while"  # something else happens before it goes on
    CUT = "watch cut"
    GONE = "410"


_CODES = {Fault.CONFLICT: (409, "Conflict"), Fault.ERROR: (500, "InternalError")}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as faults care. Writes are POST, PATCH, PUT, DELETE."""

    verb: str  # or WATCH; EVENT for what a watch tells
    what: str  # plural, with the subresource
    name: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verb, self.what, self.name)))


@dataclass(frozen=True, slots=True)
class Rule:
    """The n-th request of this kind, for a name that begins so, meets a fault."""

    verb: str
    what: str
    nth: int
    fault: Fault
    name: str = ""

    def is_about(self, asked: Asked) -> bool:
        return (asked.verb, asked.what) == (self.verb, self.what) and asked.name.startswith(
            self.name
        )


@dataclass(frozen=True, slots=True)
class Write:
    """A write that reached the server."""

    asked: Asked
    body: Body
    code: int


@dataclass
class Spoiler:
    """A plan while it is carried out. `on_held` is told when a request or reply is held for ever.

    `meanwhile` is done before a late reply goes on. Nothing gets through once it `is_closed`.
    """

    rules: Sequence[Rule] = ()
    on_held: Callable[[Asked], None] = lambda _: None
    meanwhile: Callable[[], Awaitable[None]] | None = None
    writes: list[Write] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    is_closed: bool = False
    _met: Counter[Rule] = field(default_factory=Counter)

    def fault_for(self, asked: Asked) -> Fault | None:
        found: Fault | None = None
        for rule in self.rules:
            if rule.is_about(asked):
                self._met[rule] += 1
                if self._met[rule] == rule.nth:
                    found = rule.fault
                    self.struck.append(f"{rule.fault.value} at {asked}")
        return found


@asynccontextmanager
async def proxied(server_url: str, trust: ssl.SSLContext, spoiler: Spoiler) -> AsyncIterator[str]:
    """The address of a proxy to a server."""
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, read_bufsize=LINE_MAX
    ) as session:
        proxy = _Proxy(server_url, session, spoiler)
        app = web.Application(client_max_size=LINE_MAX)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()


class _Proxy:
    def __init__(self, server_url: str, session: aiohttp.ClientSession, spoiler: Spoiler) -> None:
        self._server_url = server_url
        self._session = session
        self._spoiler = spoiler

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        asked = _asked(request, raw)
        fault = self._spoiler.fault_for(asked)
        if self._spoiler.is_closed or fault is Fault.KEPT:
            self._spoiler.on_held(asked)
            await asyncio.sleep(_FOR_EVER_S)
        if fault is Fault.GONE:
            return _status(410, "Expired")
        if fault in _CODES:
            return _status(*_CODES[fault])
        headers = _PACKING | {n: request.headers[n] for n in _KEPT if n in request.headers}
        url = f"{self._server_url}{request.path_qs}"
        async with self._session.request(
            request.method, url, data=raw or None, headers=headers
        ) as answer:
            if asked.verb == "WATCH" and answer.status == 200:
                return await self._pass_on(request, asked, answer)
            body = await answer.read()
        if asked.verb not in {"GET", "WATCH"}:
            self._spoiler.writes.append(Write(asked, _json(raw), answer.status))
        if fault in {Fault.LOST, Fault.HELD}:
            await self._hold(request, asked, fault)
        if fault is Fault.LATE and self._spoiler.meanwhile is not None:
            await self._spoiler.meanwhile()
            await asyncio.sleep(HOLD_S)  # whoever asked learns first what has happened
        kind = answer.headers.get("Content-Type", "application/json")
        return web.Response(status=answer.status, body=body, headers={"Content-Type": kind})

    async def _pass_on(
        self, request: web.Request, asked: Asked, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            async for line in answer.content:
                if self._spoiler.fault_for(Asked("EVENT", asked.what)) is Fault.CUT:
                    _cut(request)
                    break
                await response.write(line)
        return response

    async def _hold(self, request: web.Request, asked: Asked, fault: Fault) -> None:
        """The write is done; whoever asked for it does not learn that."""
        if fault is Fault.HELD:
            self._spoiler.on_held(asked)
            await asyncio.sleep(_FOR_EVER_S)
        await asyncio.sleep(HOLD_S)
        _cut(request)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _asked(request: web.Request, raw: bytes) -> Asked:
    found = _PATH.match(request.path)
    if found is None:
        return Asked(request.method, request.path)
    what = "/".join(filter(None, (found["plural"], found["sub"])))
    verb = "WATCH" if request.query.get("watch") else request.method
    name = found["name"] or (
        _json(raw).get("metadata", {}).get("name", "") if verb == "POST" else ""
    )
    return Asked("DRY" if request.query.get("dryRun") else verb, what, name)


def _status(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return web.json_response(
        {**body, "code": code, "reason": reason, "message": "spoilt"}, status=code
    )


def _json(raw: bytes) -> Body:
    try:
        found = json.loads(raw or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
