"""The routes of the page and its JSON API (docs/page.md), and the server itself.

Every request but the login needs a session, and is answered with that user's own credentials.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import web

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import decode, encode
from swell.api.kinds import AI_TRAINING_JOBS, QUEUES, TRAINING_JOBS
from swell.api.meta import Key
from swell.api.trainingjob import TrainingJob
from swell.cluster.kube.access import Access
from swell.cluster.kube.client import connect
from swell.page.actions import ActionError, job_patch, queue_patches
from swell.page.details import history, job_details, recorded
from swell.page.feed import CrowdedError
from swell.page.questions import PageQuestions, QuestionError, asked_variant, pasted_job
from swell.page.security import add_headers, guard
from swell.page.sessions import LoginError, PageSession, SessionStore
from swell.runtime.clock import Clock
from swell.runtime.cluster import merge_patch
from swell.runtime.connections import SilentConnections, listening
from swell.runtime.errors import (
    ClusterError,
    OutcomeUnknownError,
    UnauthorizedError,
    UnreachableError,
)
from swell.runtime.logs import get_logger

log = get_logger(__name__)

COOKIE = "swell-page"
BODY_BYTES_MAX = 64 * 1024
DAYS_DIGITS_MAX = 6  # of a history; what is longer asks for all of it
# Proxies close a connection on which nothing comes; a comment keeps it.
KEEP_ALIVE_S = 15.0
READY_S = 30.0
LOG_S = 3600.0
KEPT_ALIVE_S = 120.0
# Records that are gone through at a time: each of up to 10,000 jobs.
READINGS_AT_A_TIME = 4
LOG_LINES = "500"
STATIC_FILES = ("page.css", "lists.js", "job.js", "whatif.js", "page.js")
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_JOBS = {"aitrainingjobs": AI_TRAINING_JOBS, "trainingjobs": TRAINING_JOBS}
# Names by which a browser on this machine reaches a server that listens there alone.
LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})

SessionHandler = Callable[[web.Request, PageSession], Awaitable[web.StreamResponse]]


class PageServer:
    """The page of one cluster. `serving` makes it listen."""

    def __init__(
        self,
        sessions: SessionStore,
        clock: Clock,
        hosts: frozenset[str],
        connections: SilentConnections,
    ) -> None:
        self._sessions = sessions
        self._connections = connections
        # Of all users together; one user has fewer (`SharedView.turns`).
        self._turns = asyncio.Semaphore(READINGS_AT_A_TIME)
        self._clock = clock
        self._hosts = hosts
        self._questions = PageQuestions()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[guard(self._hosts)])
        route = app.router
        route.add_get("/", self._file("index.html"))
        for name in STATIC_FILES:
            route.add_get(f"/{name}", self._file(name))
        route.add_get("/favicon.ico", self._no_icon)
        route.add_post("/api/login", self._login)
        route.add_post("/api/logout", self._logout)
        route.add_get("/api/me", self._for_session(self._me))
        route.add_get("/api/state", self._for_session(self._state))
        route.add_get("/api/stream", self._for_session(self._stream))
        route.add_get("/api/history", self._for_session(self._history))
        route.add_get("/api/jobs/{kind}/{namespace}/{name}", self._for_session(self._job))
        route.add_post("/api/jobs/{kind}/{namespace}/{name}/{action}", self._for_session(self._act))
        route.add_get(
            "/api/jobs/{kind}/{namespace}/{name}/explain", self._for_session(self._explain)
        )
        route.add_post("/api/queues/{name}/{action}", self._for_session(self._act_on_queue))
        route.add_post("/api/what-if", self._for_session(self._what_if))
        route.add_get("/api/logs/{namespace}/{pod}/{container}", self._for_session(self._log))
        return app

    # -- files and sessions ------------------------------------------------------------------

    @staticmethod
    def _file(name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        content = files("swell.page").joinpath("static", name).read_bytes()
        kind = _TYPES[name.rpartition(".")[2]]

        async def handler(_: web.Request) -> web.StreamResponse:
            return web.Response(body=content, content_type=kind, charset="utf-8")

        return handler

    @staticmethod
    async def _no_icon(_: web.Request) -> web.StreamResponse:
        return web.Response(status=204)  # browsers ask for one by themselves

    async def _login(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        namespaces = body.get("namespaces") or []
        if not isinstance(namespaces, list) or not all(isinstance(n, str) for n in namespaces):
            raise web.HTTPBadRequest(reason="namespaces is a list of names")
        try:
            key = await self._sessions.login(str(body.get("token", "")), tuple(namespaces))
        except LoginError as error:
            return _answer({"error": str(error)}, status=401)
        response = _answer({"ok": True})
        # Behind an ingress the connection to this process is plain, and the user's is not.
        is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        response.set_cookie(
            COOKIE, key, httponly=True, samesite="Strict", secure=is_secure, path="/"
        )
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        await self._sessions.logout(request.cookies.get(COOKIE, ""))
        response = _answer({"ok": True})
        response.del_cookie(COOKIE, path="/")
        return response

    def _for_session(
        self, handler: SessionHandler
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def checked(request: web.Request) -> web.StreamResponse:
            session = self._sessions.get(request.cookies.get(COOKIE, ""))
            if session is None:
                return _answer({"error": "log in first"}, status=401)
            self._connections.known(request)
            try:
                return await handler(request, session)
            except UnauthorizedError:
                return _answer({"error": "your token is no longer accepted"}, status=401)
            except CrowdedError as error:
                return _answer({"error": str(error)}, status=429)
            except ClusterError as error:
                return _answer({"error": str(error)}, status=error.status.code or 502)
            except (UnreachableError, OutcomeUnknownError, TimeoutError):
                return _answer({"error": "the cluster does not answer"}, status=502)

        return checked

    # -- reading -----------------------------------------------------------------------------

    async def _me(self, _: web.Request, session: PageSession) -> web.StreamResponse:
        return _answer({"user": session.user, "namespaces": session.namespaces})

    async def _state(self, _: web.Request, session: PageSession) -> web.StreamResponse:
        await self._wait_ready(session)
        return _json(session.feed.state())

    async def _wait_ready(self, session: PageSession) -> None:
        async with asyncio.timeout(READY_S):
            await session.feed.ready.wait()

    async def _stream(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        """Changes as server-sent events. The first event has all rows, so that none is missed."""
        await self._wait_ready(session)
        stream = session.feed.open_stream()
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            add_headers(response)
            await response.prepare(request)
            while self._sessions.get(request.cookies.get(COOKIE, "")) is session:
                events = await session.feed.next_events(stream, KEEP_ALIVE_S)
                await response.write(events or b":\n\n")
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            session.feed.close_stream(stream)
        return response

    async def _history(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        days = request.query.get("days", "")
        is_number = days.isdecimal() and len(days) <= DAYS_DIGITS_MAX
        since = self._clock.now() - 86400.0 * int(days) if is_number else None
        now = self._clock.now()
        async with session.view.turns, self._turns:
            return _json(await history(session.cluster, session.namespaces, since, now))

    async def _job(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        kind, key = _named(request)
        await self._wait_ready(session)
        job = session.feed.get(kind, key)
        now = self._clock.now()
        async with session.view.turns, self._turns:
            if job is not None:
                return _answer(await job_details(session.cluster, job, now))
            found = await recorded(session.cluster, key.namespace, key.name, now)
        if found is None:
            raise web.HTTPNotFound(reason="there is no such job")
        return _answer(found)

    async def _log(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        """The log of a container, as it comes."""
        names = request.match_info
        namespace, pod = quote(names["namespace"], ""), quote(names["pod"], "")
        query = urlencode(
            {"container": names["container"], "follow": "true", "tailLines": LOG_LINES}
        )
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?{query}"
        with session.view.following_log():
            return await self._follow(request, session, path)

    @staticmethod
    async def _follow(request: web.Request, session: PageSession, path: str) -> web.StreamResponse:
        async with session.cluster.follow(path, LOG_S) as read:
            response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
            add_headers(response)
            await response.prepare(request)
            try:
                while piece := await read():
                    await response.write(piece)
            except ConnectionResetError:
                pass  # the page was closed
        return response

    async def _explain(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        job = await self._job_of(request, session)
        return _answer(await self._questions.explained(session.cluster, job, self._clock.now()))

    async def _what_if(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        """Nothing is written: the answer is worked out on a copy of what the user may read."""
        body = await _body(request)
        await self._wait_ready(session)
        picked = str(body.get("job") or "")
        try:
            if picked:
                namespace, _, name = picked.partition("/")
                job = session.feed.get(AI_TRAINING_JOBS.plural, Key(namespace, name))
                if job is None:
                    raise web.HTTPNotFound(reason="there is no such AITrainingJob")
            else:
                job = pasted_job(str(body.get("manifest") or ""))
            found = await self._questions.what_if(
                session.cluster,
                job,
                asked_variant(body),
                self._clock.now(),
                is_there=bool(picked),
            )
        except QuestionError as error:
            return _answer({"error": str(error)}, status=error.status)
        return _answer({"answers": found})

    async def _job_of(
        self, request: web.Request, session: PageSession
    ) -> AITrainingJob | TrainingJob:
        """The living job that a request names; 404 if this user sees none."""
        kind, key = _named(request)
        await self._wait_ready(session)
        job: AITrainingJob | TrainingJob | None = session.feed.get(kind, key)
        if job is None:
            raise web.HTTPNotFound(reason="there is no such job")
        return job

    # -- acting ------------------------------------------------------------------------------

    async def _act(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        kind, key = _named(request)
        job = await self._job_of(request, session)
        try:
            patch = job_patch(job, request.match_info["action"], await _body(request))
        except ActionError as error:
            return _answer({"error": str(error)}, status=422)
        # By UID: the job that the user saw, and no other of its name.
        patch.setdefault("metadata", {})["uid"] = job.metadata.uid
        await session.cluster.patch(_JOBS[kind], key, merge_patch(patch))
        return _answer({"ok": True})

    async def _act_on_queue(self, request: web.Request, session: PageSession) -> web.StreamResponse:
        await self._wait_ready(session)
        key = Key("", request.match_info["name"])
        queue = session.feed.get(QUEUES.plural, key)
        if queue is None:
            raise web.HTTPNotFound(reason="there is no such queue")
        try:
            patches = queue_patches(
                queue,
                request.match_info["action"],
                lambda name: session.feed.get(QUEUES.plural, Key("", name)),
            )
        except ActionError as error:
            return _answer({"error": str(error)}, status=422)
        for one in patches:
            one.body.setdefault("metadata", {})["uid"] = queue.metadata.uid
            resource = QUEUES.status if one.is_status else QUEUES
            await session.cluster.patch(resource, key, merge_patch(one.body))
        return _answer({"ok": True})


def _named(request: web.Request) -> tuple[str, Key]:
    names = request.match_info
    if names["kind"] not in _JOBS:
        raise web.HTTPNotFound(reason="there is no such kind of job")
    return names["kind"], Key(names["namespace"], names["name"])


async def _body(request: web.Request) -> dict[str, object]:
    try:
        found: dict[str, object] = decode(await request.read() or b"{}", dict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise web.HTTPBadRequest(reason="the body is no JSON object") from error
    return found


def _answer(value: object, status: int = 200) -> web.Response:
    return _json(encode(value), status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, content_type="application/json", status=status)


@dataclass(frozen=True, slots=True)
class PagePlacement:
    """Where a page is served, and whose credentials stand behind the login code, if any do."""

    host: str = "127.0.0.1"
    port: int = 0
    listener: socket.socket | None = None  # in place of host and port
    own: Access | None = None
    code: str = ""


@asynccontextmanager
async def serving(
    access: Access, placement: PagePlacement, *, clock: Clock, random: Random
) -> AsyncIterator[str]:
    """Serve the page for the time of the context. Yields its address."""
    sessions = SessionStore(
        access,
        lambda one: connect(one, clock, random),
        clock=clock,
        random=random,
        own=(placement.own, placement.code) if placement.own is not None else None,
    )
    hosts = LOCAL_HOSTS if placement.host in LOCAL_HOSTS else frozenset[str]()
    connections = SilentConnections(clock)
    runner = web.AppRunner(
        PageServer(sessions, clock, hosts, connections).app(),
        access_log=None,
        shutdown_timeout=1.0,
        keepalive_timeout=KEPT_ALIVE_S,
        auto_decompress=False,  # `guard` refuses bodies that would have to be
    )
    await runner.setup()
    try:
        async with listening(
            runner, connections, placement.host, placement.port, listener=placement.listener
        ) as (host, port):
            yield f"http://{host}:{port}/"
    finally:
        await sessions.close()
        await runner.cleanup()
