"""Tells people what happened to an object, as Kubernetes events, without getting in the way.

`record` only takes note: it never waits and never fails. What happens again to the same object for
the same reason is one event whose count grows, written at a bounded pace. Under pressure events
are dropped and counted; nothing depends on them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from swell.api.kinds import EVENTS
from swell.api.meta import Body, Key, Uid
from swell.api.times import format_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import (
    AlreadyExistsError,
    ClusterError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue

log = get_logger(__name__)

_FAILURES = (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError)
# Limits of the API for an event's fields.
_MESSAGE_MAX = 1024
_NAME_MAX = 253
# Where events about objects without a namespace live.
_CLUSTER_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class EventOptions:
    # One series is written at once when it begins and then at most this often.
    series_s: float = 10.0
    # All series together.
    writes_per_s: float = 10.0
    # Series remembered; when there are more, what was quiet longest goes first.
    series_max: int = 4096
    write_s: float = 10.0
    retries_max: int = 3


class _Subject(NamedTuple):
    """What makes two happenings the same one."""

    resource: str
    key: Key
    uid: Uid
    severity: str
    reason: str


@dataclass(slots=True)
class _Series:
    latest: EmitEvent
    first_at: float
    last_at: float
    # Counted but not yet written; `n_written` is what the server has, None before we know.
    n_new: int = 0
    n_written: int | None = None
    not_before: float = 0.0


class EventRecorder:
    """See the module's docstring. `run` does the writing, as a task of its own."""

    def __init__(
        self,
        cluster: Cluster,
        component: str,
        *,
        clock: Clock,
        random: Random,
        options: EventOptions = EventOptions(),  # noqa: B008
    ) -> None:
        self._cluster = cluster
        self._component = component
        self._clock = clock
        self._options = options
        self._series: OrderedDict[_Subject, _Series] = OrderedDict()
        self._queue = WorkQueue[_Subject](clock=clock, random=random)
        self.n_dropped = 0

    def record(self, event: EmitEvent) -> None:
        """Take note of something that happened."""
        now = self._clock.now()
        subject = _Subject(
            str(event.resource), event.key, event.uid, event.severity.value, event.reason
        )
        series = self._series.get(subject)
        if series is None:
            if len(self._series) >= self._options.series_max and not self._make_room():
                self.n_dropped += 1
                return
            series = self._series[subject] = _Series(event, now, now)
        series.latest = event
        series.last_at = now
        series.n_new += 1
        self._series.move_to_end(subject)
        self._queue.add_after(subject, series.not_before - self._clock.monotonic())

    async def run(self) -> None:
        """Write what is recorded, at a bounded pace, until cancelled."""
        while True:
            subject = await self._queue.get()
            await self._write_out(subject)
            self._queue.done(subject)
            await self._clock.sleep(1 / self._options.writes_per_s)

    async def flush(self, within_s: float) -> None:
        """Write everything now, as far as the time allows: for an orderly shutdown."""
        try:
            async with asyncio.timeout(within_s):
                for subject in list(self._series):
                    await self._write_out(subject)
        except TimeoutError:
            log.info("events left behind", component=self._component)

    async def _write_out(self, subject: _Subject) -> None:
        """Write what is new of a series. A few failures are forgiven, then it is dropped."""
        series = self._series.get(subject)
        if series is None or not series.n_new:
            return
        n_new, series.n_new = series.n_new, 0
        series.not_before = self._clock.monotonic() + self._options.series_s
        try:
            async with asyncio.timeout(self._options.write_s):
                series.n_written = await self._write(series, n_new)
        except _FAILURES as error:
            if self._queue.failures(subject) < self._options.retries_max:
                series.n_new += n_new
                self._queue.retry(subject)
                return
            self.n_dropped += n_new
            log.info(
                "event dropped", object=str(subject.key), reason=subject.reason, why=str(error)
            )
        self._queue.forget(subject)

    async def _write(self, series: _Series, n_new: int) -> int:
        """Create the event, or let the one that exists count on. Returns the count written."""
        name = event_name(self._component, series.latest)
        if series.n_written is None:
            try:
                await self._cluster.create(EVENTS.untyped(), self._body(name, series, n_new))
            except AlreadyExistsError:
                # From our life before this one: its count goes on.
                found = await self._cluster.get(EVENTS, name)
                series.n_written = found.count
            else:
                return n_new
        count = series.n_written + n_new
        change: Body = {
            "count": count,
            "lastTimestamp": format_time(series.last_at),
            "message": _bounded(series.latest.message),
        }
        try:
            await self._cluster.patch(EVENTS.untyped(), name, merge_patch(change))
        except NotFoundError:
            # Events expire: begin again.
            series.first_at = series.last_at
            await self._cluster.create(EVENTS.untyped(), self._body(name, series, n_new))
            return n_new
        return count

    def _body(self, name: Key, series: _Series, count: int) -> Body:
        event = series.latest
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name.name, "namespace": name.namespace},
            "involvedObject": {
                "apiVersion": event.resource.api_version,
                "kind": event.resource.kind,
                "namespace": event.key.namespace,
                "name": event.key.name,
                "uid": event.uid,
            },
            "type": event.severity.value,
            "reason": event.reason,
            "message": _bounded(event.message),
            "count": count,
            "firstTimestamp": format_time(series.first_at),
            "lastTimestamp": format_time(series.last_at),
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }

    def _make_room(self) -> bool:
        """Forget the series that has been quiet longest, unless it is not written yet."""
        subject, series = next(iter(self._series.items()))
        if series.n_new:
            return False
        del self._series[subject]
        return True


def event_name(component: str, event: EmitEvent) -> Key:
    """The same happening has the same name, in this life and the next."""
    parts = (component, event.uid, str(event.resource), event.severity.value, event.reason)
    digest = blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    stem = event.key.name[: _NAME_MAX - len(digest) - 1].rstrip(".-")
    return Key(event.key.namespace or _CLUSTER_NAMESPACE, f"{stem}.{digest}")


def _bounded(message: str) -> str:
    return message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 1] + "…"
