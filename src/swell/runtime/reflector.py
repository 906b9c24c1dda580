"""Follows one collection on a server: lists it, watches from there, and never gives up.

A broken watch is taken up again where it ended, a compacted one is followed by a new list; failures
are paced by back-off and by what the server asks for. Holds no objects: whoever receives what is
listed and watched decides what of it is news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from swell.api.backoff import Backoff
from swell.api.resource import Resource
from swell.runtime.cache import StaleListError, parse_version
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, IsKnown, Malformed, Selection, WatchEvent
from swell.runtime.errors import (
    ClusterError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    UnreachableError,
)
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain

T = TypeVar("T")
log = get_logger(__name__)

RECONNECT = Backoff(base_s=0.2, cap_s=30.0)
# A kind that is not there yet is waited for more eagerly than a server that has trouble.
UNSERVED_S_MAX = 5.0
NOT_SERVED = "the cluster does not have this kind; waiting until its definition is installed"


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """Times and sizes. A watch is renewed between one and two `watch_s`."""

    watch_s: float = 300.0
    # A server that never ends the watch it was asked to end is taken for dead.
    watch_grace_s: float = 15.0
    call_s: float = 60.0
    # From time to time everything is listed anew and every key handed out, in case one got lost.
    resync_s: float = 1800.0
    page_size: int = 1000
    # When more objects than this are to be read one by one, one list of all is cheaper.
    single_reads_max: int = 32
    backoff: Backoff = RECONNECT
    # Whether what is watched is mostly what this process itself has written.
    sees_own_writes: bool = False
    # A kind the cluster may not serve: then there are no objects, and it is asked for now and then.
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class ReflectorSink(Generic[T]):
    """Who is told: the version it has reached, and where lists, events and resyncs go.

    `replace` raises StaleListError for a list it has no use for.
    """

    version: Callable[[], int]
    replace: Callable[[Sequence[T | Malformed], int], None]
    take: Callable[[WatchEvent[T]], None]
    is_known: IsKnown
    resync: Callable[[], None]


class Reflector(Generic[T]):
    """See the module's docstring."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource[T],
        receiver: ReflectorSink[T],
        *,
        selection: Selection,
        clock: Clock,
        random: Random,
        options: InformerOptions,
    ) -> None:
        self.synced = asyncio.Event()
        self.is_served = True
        self.last_error = ""
        self._cluster = cluster
        self._resource = resource
        self._receiver = receiver
        self._selection = selection
        self._clock = clock
        self._random = random
        self._options = options
        self._failures = 0
        self._must_list = True
        self._resync_at = 0.0
        self._heard_at = 0.0

    def problem(self, patience_s: float) -> str:
        """What keeps us from knowing the present; empty when nothing does."""
        if not self.synced.is_set():
            return f"not listed yet: {self.last_error}" if self.last_error else "not listed yet"
        silent_s = self._clock.monotonic() - self._heard_at
        if self.is_served and silent_s > patience_s:
            return f"nothing heard for {silent_s:.0f} s: {self.last_error}"
        return ""

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        backoff = self._options.backoff
        while True:
            started = self._clock.monotonic()
            asked_s = await contain(self._follow())
            if isinstance(asked_s, Bug):
                log.error("informer failed", resource=str(self._resource), trace=asked_s.trace)
                asked_s = 0.0
            if self._clock.monotonic() - started >= backoff.cap_s:
                self._failures = 0
            # A watch that ends at once, however politely, must not be renewed in a hot loop.
            if self._failures:
                wait_s = backoff.jittered_s(self._failures, self._random.random())
                asked_s = max(asked_s, wait_s if self.is_served else min(wait_s, UNSERVED_S_MAX))
            await self._clock.sleep(asked_s)
            self._failures += 1

    async def list_all(self, selection: Selection) -> tuple[list[T | Malformed], int]:
        """Every page of a consistent list, and the version they are of."""
        listed: list[T | Malformed] = []
        token = ""
        async with asyncio.timeout(self._options.call_s):
            while True:
                page = await self._cluster.list(
                    self._resource,
                    selection,
                    limit=self._options.page_size,
                    continue_token=token,
                )
                listed += page.items
                listed += page.malformed
                token = page.continue_token
                if not token:
                    return listed, parse_version(page.resource_version)

    async def _follow(self) -> float:
        """List if need be and watch once. Returns how long the server asks us to stay away."""
        try:
            if self._must_list:
                await self._list()
            elif self._clock.monotonic() >= self._resync_at:
                await self._list()
                self._receiver.resync()
            await self._watch()
        except GoneError as error:
            self._must_list = True
            self._note(error)
        except ClusterError as error:
            self._note(error)
            return error.retry_after_s
        except (UnreachableError, StaleListError, TimeoutError) as error:
            self._note(error)
        return 0.0

    async def _list(self) -> None:
        try:
            listed, version = await self.list_all(self._selection)
        except NotFoundError:
            # Collections are never absent, only kinds are.
            self.is_served = False
            if self._options.is_optional:
                self.synced.set()
            raise
        self._receiver.replace(listed, version)
        self.is_served = True
        self.last_error = ""
        self._must_list = False
        self._heard_at = self._clock.monotonic()
        self._resync_at = self._heard_at + self._jittered(self._options.resync_s)
        self.synced.set()

    async def _watch(self) -> None:
        wanted_s = self._jittered(self._options.watch_s)
        watch_s = max(1.0, min(wanted_s, self._resync_at - self._clock.monotonic()))
        async with (
            asyncio.timeout(watch_s + self._options.watch_grace_s),
            self._cluster.watch(
                self._resource,
                self._selection,
                resource_version=str(self._receiver.version()),
                timeout_s=watch_s,
                is_known=self._receiver.is_known if self._options.sees_own_writes else None,
            ) as events,
        ):
            async for event in events:
                self._receiver.take(event)
                self._failures = 0
                self._heard_at = self._clock.monotonic()

    def _note(self, error: Exception) -> None:
        told = f"{type(error).__name__}: {error}" if self.is_served else NOT_SERVED
        if told != self.last_error:  # what goes on is told once
            needs_help = not self.is_served or isinstance(error, ForbiddenError)
            say = log.warning if needs_help and not self._options.is_optional else log.info
            say("watch interrupted", resource=str(self._resource), error=told)
        self.last_error = told

    def _jittered(self, span_s: float) -> float:
        return span_s * (1 + self._random.random())
