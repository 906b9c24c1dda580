"""Records what happened to objects as Kubernetes events, without delaying the work.

`record` never waits and never fails. The same reason for the same object is one event whose count
grows, written at a bounded pace. Under pressure events are dropped and counted: no decision depends
on them.
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
# The API server's limits for these fields.
_MESSAGE_MAX = 1024
_NAME_MAX = 253
# Kubernetes keeps the events of objects without a namespace here.
_CLUSTER_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Bounds on how many events are written and remembered."""

    # A series is written at once when it begins, and then at most this often.
    series_s: float = 10.0
    # For all series together.
    writes_per_s: float = 10.0
    # Series remembered; beyond that the one that was quiet longest is dropped.
    series_max: int = 4096
    write_s: float = 10.0
    retries_max: int = 3


class _Subject(NamedTuple):
    """The fields by which two events belong to one series."""

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
    # Counted and not written yet. `n_written` is the server's count, None before it is known.
    n_new: int = 0
    n_written: int | None = None
    not_before: float = 0.0


class EventRecorder:
    """Collects events; `run`, a task of its own, writes them."""

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
        """Count an event, to be written later."""
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
        self._series.move_to_end(subject)  # keeps the dictionary ordered by the last event
        self._queue.add_after(subject, series.not_before - self._clock.monotonic())

    async def run(self) -> None:
        """Write what is recorded, at a bounded pace, until cancelled."""
        while True:
            subject = await self._queue.get()
            await self._write_out(subject)
            self._queue.done(subject)
            await self._clock.sleep(1 / self._options.writes_per_s)

    async def flush(self, within_s: float) -> None:
        """Write everything now, as far as the time allows. Called at an orderly shutdown."""
        try:
            async with asyncio.timeout(within_s):
                for subject in list(self._series):
                    await self._write_out(subject)
        except TimeoutError:
            log.info("events left behind", component=self._component)

    async def _write_out(self, subject: _Subject) -> None:
        """Write the new count of a series. After a few failures it is dropped."""
        series = self._series.get(subject)
        if series is None or not series.n_new:
            return
        # Taken before the write, because more may be recorded while it is under way.
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
        """Create the event, or raise the count of the one that exists. Returns the count."""
        name = event_name(self._component, series.latest)
        if series.n_written is None:
            try:
                await self._cluster.create(EVENTS.untyped(), self._body(name, series, n_new))
            except AlreadyExistsError:
                # An earlier run of this process wrote it: its count goes on.
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
            # The server lets events expire: begin the series anew.
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
        """Drop the series that has been quiet longest. Returns False if that is not written yet."""
        subject, series = next(iter(self._series.items()))
        if series.n_new:
            return False
        del self._series[subject]
        return True


def event_name(component: str, event: EmitEvent) -> Key:
    """Returns the name of an event: the same series has the same name after a restart."""
    parts = (component, event.uid, str(event.resource), event.severity.value, event.reason)
    digest = blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    stem = event.key.name[: _NAME_MAX - len(digest) - 1].rstrip(".-")
    return Key(event.key.namespace or _CLUSTER_NAMESPACE, f"{stem}.{digest}")


def _bounded(message: str) -> str:
    return message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 1] + "…"
