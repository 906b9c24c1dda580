"""The sessions of users who are logged in: their credentials, and until when they last.

A session is known by a random number in a cookie. The credentials stay in this process: they are
in no answer, no address and no log.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from random import Random

from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cluster.kube.access import Access, KubeUser
from swell.cluster.kube.client import KubeCluster
from swell.page.feed import CrowdedError, ObjectFeed
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import ClusterError, ForbiddenError, UnauthorizedError, UnreachableError
from swell.runtime.logs import get_logger

log = get_logger(__name__)

# A day's work; a token that is revoked is refused by the API server at once, whatever this says.
SESSION_S = 12 * 3600.0
SESSIONS_MAX = 200
# Of the same credentials: with more, the oldest ends, so that nobody keeps others out.
SESSIONS_EACH_MAX = 20
# Logins that are checked at a time. Each asks the API server over a connection of its own.
LOGINS_AT_A_TIME = 4
# What one user has gone through at a time, and logs that one user's pages follow.
READINGS_EACH_MAX, LOGS_EACH_MAX = 2, 50
TOKEN_CHARACTERS_MAX = 16 * 1024
NAMESPACES_MAX = 50
_SELF_REVIEWS: Resource[Body] = Resource(
    "authentication.k8s.io",
    "v1",
    "SelfSubjectReview",
    "selfsubjectreviews",
    dict,
    namespaced=False,
)

# The digest of the credentials, and the namespaces that are shown.
ViewKey = tuple[bytes, tuple[str, ...]]
Connect = Callable[[Access], AbstractAsyncContextManager[KubeCluster]]


class LoginError(Exception):
    """A login that is refused; the text is for the user."""


@dataclass(eq=False, slots=True)
class SharedView:
    """A user's own cluster client, and what the user sees through it.

    Logins with the same credentials share one, because they may see the same. It is closed when
    the last of them is over.
    """

    key: ViewKey
    cluster: KubeCluster
    feed: ObjectFeed
    following: asyncio.Task[None]
    closing: AsyncExitStack = field(repr=False)
    n_sessions: int = 0
    n_logs: int = 0
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READINGS_EACH_MAX))

    @contextmanager
    def following_log(self) -> Iterator[None]:
        """Count a log that is followed; raises CrowdedError for one too many."""
        if self.n_logs >= LOGS_EACH_MAX:
            raise CrowdedError("too many logs are followed; close some of them")
        self.n_logs += 1
        try:
            yield
        finally:
            self.n_logs -= 1


@dataclass(eq=False, slots=True)
class PageSession:
    """One login."""

    user: str
    namespaces: tuple[str, ...]
    until: float
    view: SharedView

    @property
    def cluster(self) -> KubeCluster:
        return self.view.cluster

    @property
    def feed(self) -> ObjectFeed:
        return self.view.feed


class SessionStore:
    """The sessions of one server. `access` is the cluster's address, without credentials.

    With `own`, the credentials of whoever started the server and a code, a login may give the code
    instead of a token: it proves that the user reads the terminal of whoever started it.
    """

    def __init__(
        self,
        access: Access,
        connect: Connect,
        *,
        clock: Clock,
        random: Random,
        own: tuple[Access, str] | None = None,
    ) -> None:
        self._access = replace(access, user=KubeUser())
        self._connect = connect
        self._clock, self._random = clock, random
        self._own = own
        self._sessions: dict[str, PageSession] = {}
        self._views: dict[ViewKey, SharedView] = {}
        self._logins = asyncio.Semaphore(LOGINS_AT_A_TIME)

    async def login(self, secret: str, namespaces: tuple[str, ...]) -> str:
        """Returns the id of a new session; raises LoginError for credentials that are none."""
        async with self._logins:
            return await self._login(secret, namespaces)

    async def _login(self, secret: str, namespaces: tuple[str, ...]) -> str:
        self._expire()
        if not secret or len(secret) > TOKEN_CHARACTERS_MAX or len(namespaces) > NAMESPACES_MAX:
            raise LoginError("give a token that the cluster accepts")
        if len(self._sessions) >= SESSIONS_MAX:
            raise LoginError("too many people are logged in; try again later")
        access = self._access_for(secret)
        async with AsyncExitStack() as stack:
            # Asked at every login, also where a view is there: the token may have been revoked.
            cluster = await stack.enter_async_context(self._connect(access))
            user = await self._user(cluster)
            seen = namespaces or await self._namespaces(cluster)
            view_key = hashlib.sha256(secret.encode()).digest(), seen
            view = self._views.get(view_key)
            if view is None or view.following.done():  # done: it has failed, and is not shared on
                feed = ObjectFeed(cluster, seen, clock=self._clock, random=self._random)
                following = await stack.enter_async_context(_running(feed))
                view = SharedView(view_key, cluster, feed, following, stack.pop_all())
                # Nothing is awaited since the look: another login cannot have made one.
                self._views[view_key] = view
            view.n_sessions += 1
        of_view = [key for key, one in self._sessions.items() if one.view is view]
        for key in of_view[: len(of_view) + 1 - SESSIONS_EACH_MAX]:
            await self.logout(key)
        until = self._clock.monotonic() + SESSION_S
        key = secrets.token_urlsafe(32)
        self._sessions[key] = PageSession(user, seen, until, view)
        return key

    def _access_for(self, secret: str) -> Access:
        if self._own is not None:
            access, code = self._own
            if code and secrets.compare_digest(secret.encode(), code.encode()):
                return access
        if not secret.isascii() or not secret.isprintable() or " " in secret:
            raise LoginError("that is no token")
        return replace(self._access, user=KubeUser(token=secret))

    async def _user(self, cluster: Cluster) -> str:
        """The name of the user, as the API server knows it. This is the check of a token."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            answer = await cluster.create(_SELF_REVIEWS, body)
        except (UnauthorizedError, ForbiddenError) as error:
            raise LoginError("the cluster does not accept this token") from error
        except (ClusterError, UnreachableError, TimeoutError) as error:
            raise LoginError("the cluster could not be asked; try again") from error
        name = str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))
        if not name or name == "system:anonymous":
            raise LoginError("the cluster does not accept this token")
        return name

    async def _namespaces(self, cluster: Cluster) -> tuple[str, ...]:
        """The namespaces that are shown: all, or those whose jobs this user may list."""
        try:
            await cluster.list(AI_TRAINING_JOBS, limit=1)
        except ForbiddenError:
            pass
        else:
            return ("",)
        try:
            found = (await cluster.list(NAMESPACES)).items
        except ForbiddenError as error:
            text = "this user may not list namespaces: name those to be shown"
            raise LoginError(text) from error
        names = [str(one.metadata.name) for one in found]
        return tuple([name for name in names if await self._may_read(cluster, name)])

    async def _may_read(self, cluster: Cluster, namespace: str) -> bool:
        try:
            await cluster.list(AI_TRAINING_JOBS, Selection(namespace), limit=1)
        except ForbiddenError:
            return False
        return True

    def get(self, key: str) -> PageSession | None:
        """The session of a cookie; None for one that is over, or never was."""
        session = self._sessions.get(key)
        if session is None or self._clock.monotonic() >= session.until:
            return None
        return session

    async def logout(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        closing = self._left(session) if session is not None else None
        if closing is not None:
            await closing.aclose()

    def _left(self, session: PageSession) -> AsyncExitStack | None:
        """Take a session from its view; returns what is to be closed if it was the last one."""
        view = session.view
        view.n_sessions -= 1
        if view.n_sessions:
            return None
        if self._views.get(view.key) is view:
            del self._views[view.key]
        return view.closing

    async def close(self) -> None:
        for key in list(self._sessions):
            await self.logout(key)

    def _expire(self) -> None:
        now = self._clock.monotonic()
        for key in [key for key, one in self._sessions.items() if now >= one.until]:
            closing = self._left(self._sessions.pop(key))
            if closing is not None:
                # Informers end as soon as the loop has a turn; nothing waits for them.
                asyncio.get_running_loop().create_task(closing.aclose())


@asynccontextmanager
async def _running(feed: ObjectFeed) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(feed.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
