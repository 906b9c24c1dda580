"""Records what happened to objects as Kubernetes events, without delaying the work.

`record` never waits and never fails. The same text about the same object is one event, whose
series counts; each different text is an event of its own. Objects take turns, so that one with
many events does not keep those of others back. Under pressure events are dropped and counted: no
decision depends on them.

Events are written in the form of events.k8s.io/v1. Its times have microseconds, and names begin
with the object's and the time's, as those of other writers do: a server lists objects by name, so
even a client that sorts by nothing shows an object's events in order.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from swell.api.codec import to_body
from swell.api.kinds import RECORDED_EVENTS
from swell.api.meta import Body, Key, Uid
from swell.api.times import format_micro_time
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
_NOTE_MAX = 1024
_NAME_MAX = 253
_FIELD_MAX = 128
# Kubernetes keeps the events of objects without a namespace here.
_CLUSTER_NAMESPACE = "default"
# Clocks that were set back by more than this are followed; less is not told from two events that
# happened in the same microsecond.
_SET_BACK_US = 1_000_000


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Bounds on how many events are written and remembered."""

    # An event is written at once; the count of one that repeats, at most this often.
    series_s: float = 10.0
    # For all objects together: so many at once, and so many a second after that. The events of
    # 200 jobs that start together are then written within two seconds.
    writes_per_s: float = 500.0
    burst: int = 500
    # Writes under way at the same time, of the 32 calls that a client makes.
    writers: int = 8
    # Different texts of one reason about one object that are events of their own. Of further ones
    # the latest is written every `series_s`, and counts those that it stands for.
    texts_max: int = 10
    # Series held, written or not; beyond that new ones are dropped.
    series_max: int = 16384
    # Series that are remembered once they are written; of more, those that were quiet longest are
    # forgotten, and their text would be a new event. Kubernetes' own recorder remembers as many,
    # and each takes a kilobyte and a half, in every controller.
    written_max: int = 4096
    write_s: float = 10.0
    retries_max: int = 3


class _Regarded(NamedTuple):
    """The object that an event is about."""

    resource: str
    key: Key
    uid: Uid


class _Subject(NamedTuple):
    """The fields by which two events belong to one series; no text stands for all further ones."""

    about: _Regarded
    severity: str
    reason: str
    text: str | None


@dataclass(slots=True)
class _Series:
    event: EmitEvent
    name: Key
    first_us: int
    last_us: int
    n_counted: int = 0
    n_written: int = 0
    not_before: float = 0.0
    is_sent: bool = False  # from then on its text cannot change


@dataclass(slots=True)
class _Turn:
    """The series of one object that have to be written, the oldest first."""

    waiting: dict[_Subject, _Series] = field(default_factory=dict)


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
        self._instance = f"{component}-{socket.gethostname()}"[:_FIELD_MAX]
        self._clock = clock
        self._options = options
        self._series: OrderedDict[_Subject, _Series] = OrderedDict()
        self._n_texts: dict[_Subject, int] = {}  # by the subject without a text
        self._turns: dict[_Regarded, _Turn] = {}
        self._queue = WorkQueue[_Regarded](clock=clock, random=random)
        self._last_us = 0
        self._full_at = 0.0
        self.n_dropped = 0

    def record(self, event: EmitEvent) -> None:
        """Count an event, to be written as soon as it is its object's turn."""
        about = _Regarded(str(event.resource), event.key, event.uid)
        further = _Subject(about, event.severity.value, event.reason, None)
        subject = further._replace(text=_bounded(event.message))
        if subject not in self._series:
            if self._n_texts.get(further, 0) >= self._options.texts_max:
                subject = further
            if subject not in self._series and not self._has_room():
                self.n_dropped += 1
                return
        self._count(subject, event)

    def _count(self, subject: _Subject, event: EmitEvent) -> None:
        now_us = self._next_us()
        series = self._series.get(subject)
        if series is None or (subject.text is None and series.is_sent):
            name = _event_name(self._component, event, now_us)
            fresh = _Series(event, name, now_us, now_us)
            if series is None:
                self._remember(subject, 1)
            else:
                fresh.not_before = series.not_before
            series = self._series[subject] = fresh
        series.event, series.last_us = event, now_us
        series.n_counted += 1
        self._series.move_to_end(subject)  # keeps the dictionary ordered by the last event
        turn = self._turns.setdefault(subject.about, _Turn())
        turn.waiting[subject] = series
        self._queue.add_after(subject.about, series.not_before - self._clock.monotonic())

    async def run(self) -> None:
        """Write what is recorded, at a bounded pace, until cancelled."""
        await asyncio.gather(
            *(self._queue.serve(self._write_next) for _ in range(self._options.writers))
        )

    async def flush(self, within_s: float) -> None:
        """Write everything now, as far as the time allows. Called at an orderly shutdown."""
        try:
            async with asyncio.timeout(within_s):
                for about, turn in list(self._turns.items()):
                    for subject in list(turn.waiting):
                        await self._write_out(about, subject)
        except TimeoutError:
            log.info("events left behind", component=self._component)

    async def _write_next(self, about: _Regarded) -> None:
        """Write the oldest series of an object that is due. Others get their turns after that."""
        turn = self._turns.get(about)
        if turn is None:
            return
        now = self._clock.monotonic()
        due = next((s for s, series in turn.waiting.items() if series.not_before <= now), None)
        if due is not None:
            await self._take_token()
            if not await self._write_out(about, due):
                return  # the queue retries it
        if about in self._turns:
            soonest = min(series.not_before for series in turn.waiting.values())
            self._queue.add_after(about, soonest - self._clock.monotonic())

    async def _take_token(self) -> None:
        """Wait while more than the bound would be written."""
        now, per_write_s = self._clock.monotonic(), 1 / self._options.writes_per_s
        # The bucket as one number: the time at which it would be full if no more were taken.
        self._full_at = max(self._full_at, now) + per_write_s
        delay_s = self._full_at - now - self._options.burst * per_write_s
        if delay_s > 0:
            await self._clock.sleep(delay_s)

    async def _write_out(self, about: _Regarded, subject: _Subject) -> bool:
        """Write the count of a series. Returns False if it is to be retried.

        After a few failures it is dropped.
        """
        turn = self._turns.get(about)
        series = turn.waiting.get(subject) if turn is not None else None
        if series is None:
            return True
        # Taken before the write, because more may be recorded while it is under way.
        n_counted, series.is_sent = series.n_counted, True
        series.not_before = self._clock.monotonic() + self._options.series_s
        try:
            async with asyncio.timeout(self._options.write_s):
                series.n_written = await self._write(series, n_counted)
        except _FAILURES as error:
            if self._queue.failures(about) < self._options.retries_max:
                self._put_off(subject, series)
                self._queue.retry(about)
                return False
            self.n_dropped += n_counted - series.n_written
            series.n_written = n_counted
            log.info("event dropped", object=str(about.key), reason=subject.reason, why=str(error))
        self._queue.forget(about)
        self._settle(about, subject, series)
        return True

    def _put_off(self, subject: _Subject, series: _Series) -> None:
        """Let a series that was not written be written again, or the later text in its place."""
        latest = self._turns[subject.about].waiting[subject]
        latest.not_before = 0.0
        if latest is not series:
            latest.n_counted += series.n_counted

    def _settle(self, about: _Regarded, subject: _Subject, series: _Series) -> None:
        """Take a written series off its object's turn, unless it has been counted on meanwhile."""
        turn = self._turns[about]
        if turn.waiting[subject] is series:
            del turn.waiting[subject]
            if series.n_counted > series.n_written:
                turn.waiting[subject] = series
        if not turn.waiting:
            del self._turns[about]

    async def _write(self, series: _Series, count: int) -> int:
        """Create the event, or raise the count of the one that exists. Returns the count."""
        if not series.n_written:
            try:
                await self._cluster.create(RECORDED_EVENTS, self._body(series, count))
            except AlreadyExistsError:
                # Our own: the answer to an earlier attempt was lost. Its count may be lower.
                if count > 1:
                    await self._raise_count(series, count)
            return count
        try:
            await self._raise_count(series, count)
        except NotFoundError:
            # The server lets events expire: the series begins anew, with what is new.
            count -= series.n_written
            series.n_counted, series.n_written = series.n_counted - series.n_written, 0
            series.first_us = series.last_us
            series.name = _event_name(self._component, series.event, series.last_us)
            await self._cluster.create(RECORDED_EVENTS, self._body(series, count))
        return count

    async def _raise_count(self, series: _Series, count: int) -> None:
        change: Body = {"series": _series_body(series, count)}
        await self._cluster.patch(RECORDED_EVENTS, series.name, merge_patch(change))

    def _body(self, series: _Series, count: int) -> Body:
        event = series.event
        body: Body = {
            "apiVersion": RECORDED_EVENTS.api_version,
            "kind": RECORDED_EVENTS.kind,
            "metadata": {"name": series.name.name, "namespace": series.name.namespace},
            "eventTime": _micro_time(series.first_us),
            "regarding": {
                "apiVersion": event.resource.api_version,
                "kind": event.resource.kind,
                "namespace": event.key.namespace,
                "name": event.key.name,
                "uid": event.uid,
            },
            "type": event.severity.value,
            "reason": event.reason,
            "action": event.action or event.reason,
            "note": _bounded(event.message),
            "reportingController": self._component,
            "reportingInstance": self._instance,
        }
        if event.related is not None:
            body["related"] = to_body(event.related)
        if count > 1:
            body["series"] = _series_body(series, count)
        return body

    def _next_us(self) -> int:
        """The present in microseconds, later than that of any event recorded before."""
        now_us = int(self._clock.now() * 1_000_000)
        if now_us <= self._last_us <= now_us + _SET_BACK_US:
            now_us = self._last_us + 1
        self._last_us = now_us
        return now_us

    def _has_room(self) -> bool:
        """Whether one more series can be held. Those that were quiet longest go if written."""
        while len(self._series) >= min(self._options.written_max, self._options.series_max):
            subject, series = next(iter(self._series.items()))
            if series.n_counted > series.n_written:
                return len(self._series) < self._options.series_max
            del self._series[subject]
            self._remember(subject, -1)
        return True

    def _remember(self, subject: _Subject, n: int) -> None:
        """Count the texts of a reason that are remembered."""
        further = subject._replace(text=None)
        self._n_texts[further] = self._n_texts.get(further, 0) + n
        if not self._n_texts[further]:
            del self._n_texts[further]


def _series_body(series: _Series, count: int) -> Body:
    return {"count": max(count, 2), "lastObservedTime": _micro_time(series.last_us)}


def _event_name(component: str, event: EmitEvent, at_us: int) -> Key:
    """The name of an event: the object's, the time, and a digest that tells writers apart."""
    parts = (component, event.uid, str(event.resource), event.severity.value, event.reason)
    digest = blake2b("\0".join((*parts, event.message)).encode(), digest_size=4).hexdigest()
    tail = f"{at_us:014x}{digest}"
    stem = event.key.name[: _NAME_MAX - len(tail) - 1].rstrip(".-")
    return Key(event.key.namespace or _CLUSTER_NAMESPACE, f"{stem}.{tail}")


def _micro_time(at_us: int) -> str:
    seconds, micros = divmod(at_us, 1_000_000)
    # Not by a float of both: that would round the microseconds.
    return f"{format_micro_time(seconds)[:-7]}{micros:06d}Z"


def _bounded(message: str) -> str:
    """The message within the limit, which counts bytes on some servers and characters on others."""
    if len(message.encode()) <= _NOTE_MAX:
        return message
    return message.encode()[: _NOTE_MAX - 3].decode(errors="ignore") + "…"
