"""The parts that all verbs share: the store, the kinds, the clock, and every commit they make.

Conversion between served and stored versions happens here, and so does the expiry of objects with a
time to live.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from swell.api.codec import encode
from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import RequestAttributes
from swell.cluster.embedded.access.index import AccessIndex
from swell.cluster.embedded.registry import Registry, ServedKind, WriteContext
from swell.cluster.embedded.storage import (
    OBJECT_BYTES_MAX,
    NotDurableError,
    ObjectTooLargeError,
    Storage,
    Stored,
    StoredChange,
)
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.clock import Clock
from swell.schema.field_errors import FieldError, not_supported

EXPIRY_ACTOR = "expiry"
# Objects that expire, events that is, are also bounded in number: eight jobs a second write 40 MiB
# of them an hour, and all are held in memory.
EXPIRING_MAX = 10_000
VALIDATION_LEVELS = ("", "Ignore", "Strict", "Warn")


class _Expiry(NamedTuple):
    """An object to be removed at a time, unless it has another version by then."""

    at: float
    collection: str
    key: Key
    version: int


@dataclass(slots=True, eq=False)
class ServerCore:
    """Reads from and commits to the store on behalf of the verbs."""

    storage: Storage
    registry: Registry
    clock: Clock
    new_uid: Callable[[], str]
    rng: random.Random
    access: AccessIndex
    # Oldest first. That holds because all kinds that expire have the same time to live.
    _expiries: deque[_Expiry] = field(default_factory=deque, init=False)

    def find(self, kind: ServedKind, key: Key) -> Stored | None:
        """The object in its stored version; None when there is none."""
        if kind.ttl_s:
            self.expire()
        return self.storage.get(kind.collection, key)

    def require(self, kind: ServedKind, key: Key) -> Stored:
        """The object in its stored version, or NotFoundError."""
        stored = self.find(kind, key)
        if stored is None:
            raise refusals.not_found(kind.plural, kind.group, key.name)
        return stored

    def as_served(self, kind: ServedKind, stored: Stored) -> Stored:
        """The object in the version that the kind serves."""
        if kind.conversion is None:
            return stored
        body = kind.conversion.from_stored(stored.body)
        return Stored(encode(body), stored.version, body["metadata"])

    def context(self, verb: str, request: RequestContext, subresource: str = "") -> WriteContext:
        """The context of a write; ClusterError when its field validation level is unknown."""
        if request.field_validation not in VALIDATION_LEVELS:
            error = not_supported("fieldValidation", request.field_validation, VALIDATION_LEVELS)
            options = f"{verb.capitalize()}Options"
            raise refusals.invalid(options, "meta.k8s.io", "", [error])
        reads = _StoreReads(self.storage, set())
        return WriteContext(
            verb=verb,
            now=self.clock.now(),
            read=reads.read,
            subresource=subresource,
            field_validation=request.field_validation,
            warnings=request.warnings,
            actor=request.actor,
            dry_run=request.dry_run,
            manager=request.manager or request.actor,
            each=reads.each,
            collections_read=reads.collections,
            identity=request.identity,
            access=self.access,
        )

    def check_creation(self, kind: ServedKind, key: Key, context: WriteContext) -> None:
        """Refuse an update that creates its object when its author may not create any."""
        wanted = RequestAttributes(
            "create", kind.group, kind.plural, namespace=key.namespace, name=key.name
        )
        decision = self.access.decide(context.identity, wanted)
        if not decision.allowed:
            raise refusals.not_allowed(context.identity, wanted, decision.reason)

    def put(
        self, kind: ServedKind, key: Key, before: Stored | None, body: Body, context: WriteContext
    ) -> Stored:
        """Commit a new version, given in the served form. The caller must not reuse the body."""
        if kind.conversion is not None:
            body = kind.conversion.to_stored(body)
        if context.dry_run:
            return self.as_served(kind, _unstored(body, before))
        change = StoredChange(kind.collection, key, before, body, context.actor, context.verb)
        try:
            commit = self.storage.commit(change)
        except NotDurableError as error:
            raise refusals.not_written(str(error)) from error
        except ObjectTooLargeError as error:
            raise refusals.object_too_large(error.n_bytes, OBJECT_BYTES_MAX) from error
        if commit.after is None:
            raise AssertionError("a put leaves an object behind")
        if kind.ttl_s:
            at = commit.time + kind.ttl_s
            self._expiries.append(_Expiry(at, kind.collection, key, commit.version))
            while len(self._expiries) > EXPIRING_MAX:
                self._remove_expired(self._expiries.popleft())
        return self.as_served(kind, commit.after)

    def remove(self, kind: ServedKind, key: Key, before: Stored, context: WriteContext) -> int:
        """Commit the removal of an object; returns the version of that commit."""
        if context.dry_run:
            return self.storage.version
        change = StoredChange(kind.collection, key, before, None, context.actor, "delete")
        return self.storage.commit(change).version

    def expire(self) -> None:
        """Remove the objects whose time to live has passed.

        Called before reads of such kinds instead of by a timer, so that a read never returns an
        expired object. It costs little when nothing has expired.
        """
        now = self.clock.now()
        while self._expiries and self._expiries[0].at <= now:
            self._remove_expired(self._expiries.popleft())

    def _remove_expired(self, due: _Expiry) -> None:
        stored = self.storage.get(due.collection, due.key)
        # An object written since then has a later entry of its own.
        if stored is not None and stored.version == due.version:
            change = StoredChange(due.collection, due.key, stored, None, EXPIRY_ACTOR, "delete")
            self.storage.commit(change)

    def resume_expiry(self, kind: ServedKind) -> None:
        """Schedule the expiry of objects found at start, a full time to live from now.

        The store does not record when an object was last written.
        """
        at = self.clock.now() + kind.ttl_s
        for key, stored in self.storage.list(kind.collection).items:
            self._expiries.append(_Expiry(at, kind.collection, key, stored.version))


@dataclass(slots=True, eq=False)
class _StoreReads:
    """Reads other objects for the rules of a kind, and notes in which collections."""

    storage: Storage
    collections: set[str]

    def read(self, collection: str, key: Key) -> Body | None:
        self.collections.add(collection)
        stored = self.storage.get(collection, key)
        return stored.body if stored else None

    def each(self, collection: str) -> Iterator[Body]:
        self.collections.add(collection)
        return (stored.body for stored in self.storage.values(collection))


def refuse_invalid(kind: ServedKind, name: str, errors: list[FieldError]) -> None:
    if errors:
        raise refusals.invalid(kind.kind, kind.error_group, name, errors)


def _unstored(body: Body, before: Stored | None) -> Stored:
    """The result of a dry run: the new content under the old version, or under none."""
    if before is not None:
        return Stored.of(body, before.version)
    return Stored(encode(body), 0, body["metadata"])
