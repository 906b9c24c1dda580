"""The `Cluster` port on an API server in the same process: the same answers, without a network.

Bodies passed in are copied. Structs are shared by all readers of the same version, which is safe
because they are immutable. Untyped bodies are copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar, cast

import msgspec

from swell.api.codec import decode, encode
from swell.api.meta import Body, Key, Status, Uid
from swell.api.resource import Resource
from swell.cluster.embedded import refusals
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import (
    DeleteOptions,
    ListOptions,
    RequestContext,
    WatchOptions,
)
from swell.cluster.embedded.verbs.watching import FailedWatch, Watch
from swell.runtime.cluster import (
    EVERYTHING,
    PLAIN,
    PLAIN_DELETION,
    Deletion,
    EventType,
    IsKnown,
    Malformed,
    ObjectList,
    Patch,
    Selection,
    WatchEvent,
    WriteOptions,
)
from swell.runtime.errors import MalformedError

T = TypeVar("T")

BOOKMARK_INTERVAL_S = 60.0  # as over HTTP
EVENTS_AT_ONCE = 32  # handling one takes up to a millisecond
_SUCCESS = Status(status="Success")


class InProcessCluster:
    """A client of one API server. Every commit it makes carries the name of its actor."""

    def __init__(self, api: ApiServer, actor: str) -> None:
        self._api = api
        self._actor = actor

    async def get(self, resource: Resource[T], key: Key, *, resource_version: str = "") -> T:
        def read() -> Stored:
            kind = self._kind(resource)
            if resource.subresource == "scale":
                return self._api.get_scale(kind, key)
            return self._api.get(kind, key, resource_version)

        return _object(resource, await self._api.answer(read))

    async def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList[T]:
        options = ListOptions(
            namespace=selection.namespace,
            labels=selection.labels,
            fields=selection.fields,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )
        page = await self._api.answer(lambda: self._api.list(self._kind(resource), options))
        items: list[T] = []
        malformed: list[Malformed] = []
        for stored in page.items:
            try:
                items.append(_decoded(resource, stored))
            except msgspec.ValidationError as error:
                malformed.append(_malformed(stored, error))
        return ObjectList(
            tuple(items), str(page.version), page.continue_token, page.remaining, tuple(malformed)
        )

    def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float | None = None,
        is_known: IsKnown | None = None,  # noqa: ARG002 - what is stored has been decoded before
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        options = WatchOptions(
            namespace=selection.namespace,
            labels=selection.labels,
            fields=selection.fields,
            resource_version=resource_version,
        )
        return self._watching(resource, options, timeout_s)

    async def create(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        key, own, request = _key_of(resource, body), _copied(body), self._request(options)

        def write() -> Stored | None:
            kind = self._kind(resource)
            match resource.subresource:
                case "":
                    return self._api.create(kind, key.namespace, own, request)
                case "binding":
                    self._api.bind(kind, key, own, request)
                case "eviction":
                    self._api.evict(kind, key, own, request)
                case _:
                    raise refusals.method_not_allowed("create")
            return None

        stored = await self._api.answer(write)
        return _success(resource) if stored is None else _object(resource, stored)

    async def update(self, resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> T:
        key, own, request = _key_of(resource, body), _copied(body), self._request(options)
        written = await self._api.answer(
            lambda: self._api.update(
                self._kind(resource), key, own, request, subresource=resource.subresource
            )
        )
        return _object(resource, written.stored)

    async def patch(
        self, resource: Resource[T], key: Key, patch: Patch, options: WriteOptions = PLAIN
    ) -> T:
        own, request = Patch(patch.kind, _copied(patch.body)), self._request(options)
        stored = await self._api.answer(
            lambda: self._api.patch(
                self._kind(resource), key, own, request, subresource=resource.subresource
            )
        )
        return _object(resource, stored)

    async def delete(
        self, resource: Resource[T], key: Key, deletion: Deletion = PLAIN_DELETION
    ) -> T | None:
        request = RequestContext(self._actor, dry_run=deletion.dry_run)
        options = _delete_options(deletion)
        deleted = await self._api.answer(
            lambda: self._api.delete(self._kind(resource), key, options, request)
        )
        return None if deleted.gone else _object(resource, deleted.stored)

    async def try_delete(self, resource: Resource[T], key: Key) -> Uid:
        request, options = RequestContext(self._actor, dry_run=True), DeleteOptions()
        deleted = await self._api.answer(
            lambda: self._api.delete(self._kind(resource), key, options, request)
        )
        return Uid(deleted.stored.uid)

    async def delete_collection(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        deletion: Deletion = PLAIN_DELETION,
    ) -> None:
        request = RequestContext(self._actor, dry_run=deletion.dry_run)
        chosen = ListOptions(selection.namespace, selection.labels, selection.fields)
        options = _delete_options(deletion)
        await self._api.delete_collection(self._kind(resource), chosen, options, request)

    # -- inside ------------------------------------------------------------------------------

    @asynccontextmanager
    async def _watching(
        self, resource: Resource[T], options: WatchOptions, timeout_s: float | None
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        watch = await self._api.answer(lambda: self._api.watch(self._kind(resource), options))
        events = self._events(resource, watch, timeout_s)
        try:
            yield events
        finally:
            await events.aclose()

    async def _events(
        self, resource: Resource[T], watch: Watch | FailedWatch, timeout_s: float | None
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """The events of a watch, with a bookmark in every quiet minute, until the timeout."""
        clock = self._api.clock
        end = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            events = watch.poll()
            for n, event in enumerate(events, 1):
                # A caller handles each without waiting, so that requests would have to wait for
                # all of them.
                if n % EVENTS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if event.stored is None:
                    yield WatchEvent(event.type, None, str(event.version))
                else:
                    yield WatchEvent(
                        event.type,
                        _decoded_or_malformed(resource, event.stored),
                        str(event.version),
                    )
            if events:
                continue  # more may have arrived while the caller handled these
            wait_s = BOOKMARK_INTERVAL_S
            if end is not None:
                wait_s = min(wait_s, end - clock.monotonic())
            if wait_s <= 0:
                return
            try:
                async with asyncio.timeout(wait_s):
                    await watch.wait()
            except TimeoutError:
                yield WatchEvent(EventType.BOOKMARK, None, str(watch.version))

    def _request(self, options: WriteOptions) -> RequestContext:
        return RequestContext(
            self._actor,
            options.dry_run,
            options.field_validation or "",
            manager=options.field_manager,
            force=options.force,
        )

    def _kind(self, resource: Resource[T]) -> ServedKind:
        kind = self._api.registry.find(resource.group, resource.version, resource.plural)
        if kind is None or (resource.subresource and not _has_subresource(kind, resource)):
            raise refusals.not_found(resource.plural, resource.group, resource.subresource)
        return kind


def _has_subresource(kind: ServedKind, resource: Resource[T]) -> bool:
    return resource.subresource in kind.subresources


def _key_of(resource: Resource[T], body: Body) -> Key:
    metadata = body.get("metadata") or {}
    namespace = metadata.get("namespace", "") if resource.namespaced else ""
    return Key(namespace, metadata.get("name", ""))


def _copied(body: object) -> Body:
    """A copy of a body. Encoding and decoding is the fastest way, and refuses what is no JSON."""
    return cast("Body", decode(encode(body), object))


def _decoded(resource: Resource[T], stored: Stored) -> T:
    if resource.struct is dict:
        return cast("T", stored.copy())
    return stored.typed(resource.struct)


def _object(resource: Resource[T], stored: Stored) -> T:
    """The object of a response; MalformedError when it does not fit the resource's struct."""
    found = _decoded_or_malformed(resource, stored)
    if isinstance(found, Malformed):
        raise MalformedError(found.key, found.error)
    return found


def _decoded_or_malformed(resource: Resource[T], stored: Stored) -> T | Malformed:
    try:
        return _decoded(resource, stored)
    except msgspec.ValidationError as error:
        return _malformed(stored, error)


def _malformed(stored: Stored, error: msgspec.ValidationError) -> Malformed:
    metadata = stored.metadata
    key = Key(metadata.get("namespace", ""), metadata.get("name", ""))
    return Malformed(key, Uid(stored.uid), str(stored.version), str(error), stored.copy())


def _success(resource: Resource[T]) -> T:
    """The response to a binding or an eviction: a Status, decoded as the resource's struct."""
    return decode(encode(_SUCCESS), resource.struct)


def _delete_options(deletion: Deletion) -> DeleteOptions:
    return DeleteOptions(
        uid=deletion.uid,
        resource_version=deletion.resource_version,
        grace_s=deletion.grace_s,
        propagation=deletion.propagation,
    )
