"""Keeps a few objects up to date for a command, over one connection: list once, then watch.

It is the blocking counterpart of an informer, without handlers or threads: the caller polls.
"""

from __future__ import annotations

import time
from random import Random
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from swell.api.meta import Key
from swell.api.resource import ApiObject, Resource
from swell.cluster.decoding import decode_event
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import LineStream, OneShot
from swell.cluster.kube.policy import LIMITS, WATCH_S
from swell.runtime.cluster import EventType, Malformed, Selection
from swell.runtime.errors import ClusterError, GoneError, MalformedError, UnreachableError

T = TypeVar("T")
# A server or proxy that ends every watch at once must not be asked as fast as it can answer.
REOPEN_S = 1.0


class WatchedObjects(Generic[T]):
    """The objects of a selection. Poll it, and close it after use.

        unlisted --list--> listed --open a watch--> watching --events--> watching
           ^                 ^                       |    |
           |                 +--ended, or silent-----+    |  resumed from the last version
           +--410 Gone, refused, or the connection broke--+

    `objects` keeps its last content while the server cannot be reached.
    """

    def __init__(
        self, client: OneShot, resource: Resource[T], selection: Selection, rng: Random
    ) -> None:
        self.objects: dict[Key, T] = {}
        self._changes: list[tuple[EventType, T]] = []
        self._client = client
        self._resource = resource
        self._selection = selection
        self._rng = rng
        self._version = ""  # empty: to be listed
        self._stream: LineStream | None = None
        self._opened_at = float("-inf")
        self._silent_at = 0.0  # when the watch has outlived what the server was asked for

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def poll(self, within_s: float) -> None:
        """Bring `objects` up to date: returns after the first change, or after this time.

        The first poll lists, however long that takes. After an error the next poll lists again,
        because events may have been missed.
        """
        try:
            if not self._version:
                self._list()
            elif self._stream is None and time.monotonic() < self._opened_at + REOPEN_S:
                time.sleep(within_s)
            else:
                self._read(self._stream or self._open(), within_s)
        except GoneError:
            self._forget_version()
        except (ClusterError, UnreachableError):
            self._forget_version()
            raise

    def take_changes(self) -> list[tuple[EventType, T]]:
        """Return the changes of `objects` since the last call, in their order."""
        changes, self._changes = self._changes, []
        return changes

    def _list(self) -> None:
        found = self._client.send(calls.list_page(self._resource, self._selection))
        for malformed in found.malformed:
            raise MalformedError(malformed.key, malformed.error)
        before, self.objects = self.objects, {_key(item): item for item in found.items}
        for key, item in before.items():
            if key not in self.objects:
                self._changes.append((EventType.DELETED, item))
        for key, item in self.objects.items():
            if key not in before:
                self._changes.append((EventType.ADDED, item))
            elif _version_of(item) != _version_of(before[key]):
                self._changes.append((EventType.MODIFIED, item))
        # The list's version, not an object's: that of an object unchanged for long is compacted.
        self._version = found.resource_version

    def _open(self) -> LineStream:
        life_s = round(self._rng.uniform(*WATCH_S))
        call = calls.watch(self._resource, self._selection, self._version, life_s)
        self._stream = self._client.stream(call)
        self._opened_at = time.monotonic()
        self._silent_at = self._opened_at + life_s + LIMITS.watch_slack_s
        return self._stream

    def _read(self, stream: LineStream, within_s: float) -> None:
        lines = stream.read(within_s)
        for line in lines or ():
            if line:
                self._apply(line)
        # A connection that a router has dropped gives neither bytes nor an error.
        if lines is None or time.monotonic() > self._silent_at:
            self.close()

    def _apply(self, line: bytes) -> None:
        event = decode_event(line, self._resource)
        found = event.object
        if isinstance(found, Malformed):
            raise MalformedError(found.key, found.error)
        if found is not None:
            self._changes.append((event.type, found))
            if event.type is EventType.DELETED:
                self.objects.pop(_key(found), None)
            else:
                self.objects[_key(found)] = found
        self._version = event.resource_version

    def _forget_version(self) -> None:
        self._version = ""
        self.close()

    def close(self) -> None:
        """Close the watch, if one is open; another poll opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _version_of(found: object) -> str:
    if isinstance(found, dict):
        return str(found["metadata"].get("resourceVersion", ""))
    return cast("ApiObject", found).metadata.resource_version


def _key(found: object) -> Key:
    if isinstance(found, dict):
        meta = found["metadata"]
        return Key(meta.get("namespace", ""), meta["name"])
    return cast("ApiObject", found).metadata.key
