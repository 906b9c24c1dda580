"""Lists one collection, watches it from there, and resumes the watch whenever it ends.

A watch that ended or broke is resumed at the version it had reached, so no change is lost. A stale
watch, one whose version the server has compacted, is answered with 410 Gone: the collection is
listed anew and watched from the list's version. Failures are followed by a back-off, or by the
longer delay that the server asks for.

    LIST --- at version v ---> WATCH from v --- ends or breaks ---> back-off
     ^                          ^   |  ^                              |   |
     |                          |   +--+ event: v = its version       |   |
     |                          +------------- resume at v -----------+   |
     +----------- v is compacted (410 Gone), or a resync is due ----------+

It holds no objects: the sink that receives lists and events decides which of them are new.
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

# The cap is that of client-go's reflectors.
RECONNECT = Backoff(base_s=0.2, cap_s=30.0)
# A kind that is not installed yet is asked for more often than a server that has trouble.
UNSERVED_S_MAX = 5.0
# A kind behind a feature gate comes with a restart of the server, not at any moment.
GATED_RECHECK_S = 300.0
NOT_SERVED = "the cluster does not have this kind; waiting until its definition is installed"


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """Times and sizes of an informer. A watch lasts between one and two `watch_s`."""

    # A watch that hangs looks like a quiet one, so each is ended after five to ten minutes, as
    # client-go does.
    watch_s: float = 300.0
    # A server that has not ended the watch this long after it was asked to is taken for dead.
    watch_grace_s: float = 15.0
    call_s: float = 60.0
    # Everything is listed anew and every key handed out again, in case a change got lost.
    resync_s: float = 1800.0
    page_size: int = 1000
    # Above this number of objects one list of all is cheaper than reading one by one.
    single_reads_max: int = 32
    backoff: Backoff = RECONNECT
    # Set when most watched changes are this process's own writes: their events need no decoding.
    sees_own_writes: bool = False
    # The cluster may not serve the kind. Then there are no objects, and the informer is synced.
    is_optional: bool = False
    # This process may lack the right to read the kind, and can do without: then, too, it is empty.
    # Only before the first list: a right that is taken away later leaves a cache out of date.
    may_be_forbidden: bool = False
    # The longest pause between two looks whether a kind is served by now.
    recheck_s: float = UNSERVED_S_MAX


@dataclass(frozen=True, slots=True)
class ReflectorSink(Generic[T]):
    """Receives what a reflector lists and watches.

    `version` is the version reached so far, from which a watch is resumed. `replace` takes a list
    and raises StaleListError if the list is older than that. `take` takes one event. `resync` is
    called after a list that was due to the resync period. `access_changed` is called when it turns
    out that an optional kind may not be read, and when it may be read again.
    """

    version: Callable[[], int]
    replace: Callable[[Sequence[T | Malformed], int], None]
    take: Callable[[WatchEvent[T]], None]
    is_known: IsKnown
    resync: Callable[[], None]
    access_changed: Callable[[], None]


class Reflector(Generic[T]):
    """Keeps a sink current with one collection; see the module's docstring."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource[T],
        sink: ReflectorSink[T],
        *,
        selection: Selection,
        clock: Clock,
        random: Random,
        options: InformerOptions,
    ) -> None:
        self.synced = asyncio.Event()
        self.is_served = True
        # Whether a kind that counts as empty does so because it may not be read.
        self.is_forbidden = False
        self.last_error = ""
        self._cluster = cluster
        self._resource = resource
        self._sink = sink
        self._selection = selection
        self._clock = clock
        self._random = random
        self._options = options
        self._failures = 0
        self._must_list = True
        self._resync_at = 0.0
        self._heard_at = 0.0

    def problem(self, patience_s: float) -> str:
        """Returns why the sink may be out of date, or the empty text if it is current."""
        if not self.synced.is_set():
            return f"not listed yet: {self.last_error}" if self.last_error else "not listed yet"
        silent_s = self._clock.monotonic() - self._heard_at
        if self.is_served and silent_s > patience_s:
            return f"nothing heard for {silent_s:.0f} s: {self.last_error}"
        return ""

    async def run(self) -> None:
        """List and watch the collection until cancelled."""
        backoff = self._options.backoff
        while True:
            started = self._clock.monotonic()
            asked_s = await contain(self._list_and_watch())
            if isinstance(asked_s, Bug):
                log.error("informer failed", resource=str(self._resource), trace=asked_s.trace)
                asked_s = 0.0
            # A watch that lasted this long worked, also if no event came.
            if self._clock.monotonic() - started >= backoff.cap_s:
                self._failures = 0
            # The first resumption is immediate: most watches end because their time is up. But a
            # server that ends every watch at once must not be asked in a hot loop.
            if self._failures:
                pace = backoff if self.is_served else self._recheck_backoff()
                wait_s = pace.jittered_s(self._failures, self._random.random())
                longest_s = wait_s if self.is_served else self._options.recheck_s
                asked_s = max(asked_s, min(wait_s, longest_s))
            await self._clock.sleep(asked_s)
            self._failures += 1

    def _recheck_backoff(self) -> Backoff:
        """Returns the delays between looks for a kind that is not served."""
        backoff, recheck_s = self._options.backoff, self._options.recheck_s
        return Backoff(backoff.base_s, max(backoff.cap_s, recheck_s))

    async def list_all(self, selection: Selection) -> tuple[list[T | Malformed], int]:
        """Returns every page of a consistent list, and the version they are of."""
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

    async def _list_and_watch(self) -> float:
        """List if need be and watch once. Returns the delay that the server asks for."""
        try:
            if self._must_list:
                await self._list()
            elif self._clock.monotonic() >= self._resync_at:
                await self._list()
                self._sink.resync()
            await self._watch()
        except GoneError as error:
            # The server has compacted the version: what happened since can only be listed.
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
            # An empty collection is listed as empty. Not found means that the kind is not served.
            self.is_served = False
            self._set_forbidden(False)
            if self._options.is_optional:
                self.synced.set()
            raise
        except ForbiddenError:
            was_read = self.synced.is_set() and self.is_served
            if self._options.may_be_forbidden and not was_read:
                self.is_served = False
                self._set_forbidden(True)
                self.synced.set()
            raise
        self._sink.replace(listed, version)
        self.is_served = True
        self._set_forbidden(False)
        self.last_error = ""
        self._must_list = False
        self._heard_at = self._clock.monotonic()
        self._resync_at = self._heard_at + self._jittered(self._options.resync_s)
        self.synced.set()

    def _set_forbidden(self, is_forbidden: bool) -> None:
        if is_forbidden != self.is_forbidden:
            self.is_forbidden = is_forbidden
            self._sink.access_changed()

    async def _watch(self) -> None:
        wanted_s = self._jittered(self._options.watch_s)
        # The resync takes place between two watches, so the last watch before it is shorter.
        watch_s = max(1.0, min(wanted_s, self._resync_at - self._clock.monotonic()))
        async with (
            asyncio.timeout(watch_s + self._options.watch_grace_s),
            self._cluster.watch(
                self._resource,
                self._selection,
                resource_version=str(self._sink.version()),
                timeout_s=watch_s,
                is_known=self._sink.is_known if self._options.sees_own_writes else None,
            ) as events,
        ):
            async for event in events:
                self._sink.take(event)
                self._failures = 0
                self._heard_at = self._clock.monotonic()

    def _note(self, error: Exception) -> None:
        is_forbidden = isinstance(error, ForbiddenError)
        is_absent = not self.is_served and not self.is_forbidden
        text = NOT_SERVED if is_absent else f"{type(error).__name__}: {error}"
        if is_forbidden and not self.is_served:
            text += "; the kind counts as empty until it may be read"
        if text != self.last_error:  # an error that lasts is logged once
            needs_help = is_forbidden or (is_absent and not self._options.is_optional)
            write = log.warning if needs_help else log.info
            write("watch interrupted", resource=str(self._resource), error=text)
        self.last_error = text

    def _jittered(self, span_s: float) -> float:
        """One to two spans, so that the watches of many informers do not end together."""
        return span_s * (1 + self._random.random())
