"""What all verbs share: the store, the kinds, time and chance, and the way into the log.

Decides one thing only: how an object looks in the version it was asked for.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from swell.api.codec import encode
from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.registry import Registry, ServedKind, WriteContext
from swell.cluster.embedded.storage import Storage, Stored, StoredChange
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.clock import Clock
from swell.schema.field_errors import FieldError, not_supported

EXPIRY_ACTOR = "expiry"
VALIDATION_LEVELS = ("", "Ignore", "Strict", "Warn")


class _Expiry(NamedTuple):
    at: float
    collection: str
    key: Key
    version: int


class ServerCore:
    """The one place verbs read from and commit to."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        clock: Clock,
        new_uid: Callable[[], str],
        rng: random.Random,
    ) -> None:
        self.storage = storage
        self.registry = registry
        self.clock = clock
        self.new_uid = new_uid
        self.rng = rng
        # Oldest first: all kinds that expire do so after the same time.
        self._expiries: deque[_Expiry] = deque()

    def find(self, kind: ServedKind, key: Key) -> Stored | None:
        """The object as stored."""
        if kind.ttl_s:
            self.expire()
        return self.storage.get(kind.collection, key)

    def need(self, kind: ServedKind, key: Key) -> Stored:
        """The object as stored, or NotFoundError."""
        stored = self.find(kind, key)
        if stored is None:
            raise refusals.not_found(kind.plural, kind.group, key.name)
        return stored

    def view(self, kind: ServedKind, stored: Stored) -> Stored:
        """The object in the version the kind serves."""
        if kind.conversion is None:
            return stored
        body = kind.conversion.from_stored(stored.body)
        return Stored(encode(body), stored.version, body["metadata"])

    def context(self, verb: str, call: RequestContext, subresource: str = "") -> WriteContext:
        if call.field_validation not in VALIDATION_LEVELS:
            error = not_supported("fieldValidation", call.field_validation, VALIDATION_LEVELS)
            options = f"{verb.capitalize()}Options"
            raise refusals.invalid(options, "meta.k8s.io", "", [error])
        return WriteContext(
            verb=verb,
            now=self.clock.now(),
            read=self._read,
            subresource=subresource,
            field_validation=call.field_validation,
            warnings=call.warnings,
            actor=call.actor,
            dry_run=call.dry_run,
            each=self._each,
        )

    def put(
        self, kind: ServedKind, key: Key, before: Stored | None, body: Body, context: WriteContext
    ) -> Stored:
        """Commit a new version, given in the served form. The body must not be touched again."""
        if kind.conversion is not None:
            body = kind.conversion.to_stored(body)
        if context.dry_run:
            return self.view(kind, _unstored(body, before))
        change = StoredChange(kind.collection, key, before, body, context.actor, context.verb)
        commit = self.storage.commit(change)
        if commit.after is None:
            raise AssertionError("a put leaves an object behind")
        if kind.ttl_s:
            at = commit.time + kind.ttl_s
            self._expiries.append(_Expiry(at, kind.collection, key, commit.version))
        return self.view(kind, commit.after)

    def remove(self, kind: ServedKind, key: Key, before: Stored, context: WriteContext) -> int:
        """Commit the end of an object; the version of that commit."""
        if context.dry_run:
            return self.storage.version
        change = StoredChange(kind.collection, key, before, None, context.actor, "delete")
        return self.storage.commit(change).version

    def expire(self) -> None:
        """Remove what outlived its time to live. Cheap when there is nothing to do."""
        now = self.clock.now()
        while self._expiries and self._expiries[0].at <= now:
            due = self._expiries.popleft()
            stored = self.storage.get(due.collection, due.key)
            if stored is not None and stored.version == due.version:
                change = StoredChange(due.collection, due.key, stored, None, EXPIRY_ACTOR, "delete")
                self.storage.commit(change)

    def resume_expiry(self, kind: ServedKind) -> None:
        """Let objects found in the store at start live once more for their whole time."""
        at = self.clock.now() + kind.ttl_s
        for key, stored in self.storage.list(kind.collection).items:
            self._expiries.append(_Expiry(at, kind.collection, key, stored.version))

    def _each(self, collection: str) -> Iterator[Body]:
        return (stored.body for _, stored in self.storage.list(collection).items)

    def _read(self, collection: str, key: Key) -> Body | None:
        stored = self.storage.get(collection, key)
        return stored.body if stored else None


def refuse_invalid(kind: ServedKind, name: str, errors: list[FieldError]) -> None:
    if errors:
        raise refusals.invalid(kind.kind, kind.group, name, errors)


def _unstored(body: Body, before: Stored | None) -> Stored:
    """What a dry run answers with: the old version, or none."""
    if before is not None:
        return Stored.of(body, before.version)
    return Stored(encode(body), 0, body["metadata"])
