"""The filter of a list or watch, and a watch: the changes of the filtered objects as events.

A watch is a cursor on the store's log. Nothing is queued for it. Its states:

    started from a version ----> live <---- poll() returns events, wait() waits for more
           |                      |
           | the version is       | the log was compacted beyond the cursor
           | compacted, or in     v
           | the future        expired: poll() raises 410; the client lists again
           v
    FailedWatch: the first poll() raises (410 expired, or 504 too large a version)
"""

from __future__ import annotations

from typing import NamedTuple

from swell.cluster.embedded import refusals
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.selectors import (
    FieldSelector,
    LabelRequirements,
    SelectorError,
    parse_fields,
    parse_labels,
)
from swell.cluster.embedded.storage import Commit, CompactedError, Cursor, Stored
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.requests import StoredEvent
from swell.runtime.cluster import EventType
from swell.runtime.errors import ClusterError


class Filter(NamedTuple):
    """The namespace and the selectors of a list or a watch."""

    namespace: str
    labels: LabelRequirements
    fields: FieldSelector

    @property
    def selects_all(self) -> bool:
        return not self.labels.requirements and not self.fields.terms

    def matches(self, stored: Stored) -> bool:
        """Whether the selectors match. The namespace is not compared: lists read only their own."""
        if self.labels.requirements and not self.labels.matches(stored.labels):
            return False
        return not self.fields.terms or self.fields.matches(stored.text_at)


def parse_filter(kind: ServedKind, namespace: str, labels: str, fields: str) -> Filter:
    """The filter of a request; 400 when a selector cannot be parsed."""
    try:
        return Filter(namespace, parse_labels(labels), parse_fields(fields, kind.selectable_fields))
    except SelectorError as error:
        raise bad_request(str(error)) from error


class Watch:
    """The changes of the filtered objects, taken at the watcher's pace.

    It returns durable commits only. Its first events are durable because a watch is started through
    `ApiServer.answer`.
    """

    def __init__(
        self,
        core: ServerCore,
        kind: ServedKind,
        chosen: Filter,
        cursor: Cursor,
        *,
        first: list[StoredEvent],
        since: int,
    ) -> None:
        self._core = core
        self._kind = kind
        self._chosen = chosen
        self._cursor = cursor
        self._first = first
        self._since = since
        self._reached = since

    def poll(self) -> list[StoredEvent]:
        """The next events, possibly none. GoneError when the log is compacted beyond the cursor."""
        if self._first:
            first, self._first = self._first, []
            return [self._as_served(event) for event in first]
        try:
            commits = self._cursor.take()
        except CompactedError as error:
            raise too_old(error) from error
        if commits:
            self._reached = commits[-1].version
        events: list[StoredEvent] = []
        for commit in commits:
            event = self._event(commit)
            if event is not None:
                events.append(self._as_served(event))
        return events

    async def wait(self) -> None:
        """Return when `poll` may have events."""
        if not self._first:
            await self._cursor.wait()

    @property
    def version(self) -> int:
        """The version for a bookmark: all events up to it have been returned by `poll`.

        A commit may have arrived since the last poll; then the version is that of the last event.
        """
        if self._cursor.is_behind:
            return self._reached
        return max(self._since, self._core.storage.durable_version)

    def _event(self, commit: Commit) -> StoredEvent | None:
        """A commit as an event, None when it is filtered out.

        An object that begins to match counts as added, one that stops matching as deleted.
        """
        chosen = self._chosen
        if chosen.namespace and commit.key.namespace != chosen.namespace:
            return None
        if commit.version <= self._since:  # the watch was started with a version of the future
            return None
        before, after = commit.before, commit.after
        was = before is not None and chosen.matches(before)
        if after is not None and chosen.matches(after):
            return StoredEvent(
                EventType.MODIFIED if was else EventType.ADDED, after, commit.version
            )
        return StoredEvent(EventType.DELETED, commit.last, commit.version) if was else None

    def _as_served(self, event: StoredEvent) -> StoredEvent:
        if self._kind.conversion is None or event.stored is None:
            return event
        return StoredEvent(
            event.type, self._core.as_served(self._kind, event.stored), event.version
        )


class FailedWatch:
    """A watch that cannot start at its version: the first `poll` raises the error."""

    def __init__(self, error: ClusterError) -> None:
        self._error = error

    def poll(self) -> list[StoredEvent]:
        raise self._error

    async def wait(self) -> None:
        return

    @property
    def version(self) -> int:
        return 0


def too_old(error: CompactedError) -> ClusterError:
    return refusals.expired(f"too old resource version: {error.version} ({error.compacted})")
