"""The API server as an object: every verb on every served kind, below HTTP.

Verbs are synchronous, which makes them atomic: no other request runs between a check and the commit
it allows. They raise `runtime.errors` with the Status that a real server would send. Callers that
pass a result on to a client run the verb through `answer`, which waits until it is durable. A large
write goes through `answer_large`: checking it takes so long that other requests need their turn.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeAlias, TypeVar

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.index import AccessIndex
from swell.cluster.embedded.access.reviews import Reviews
from swell.cluster.embedded.registry import Registry, ServedKind
from swell.cluster.embedded.slices import take_all
from swell.cluster.embedded.storage import NotDurableError, Storage, Stored
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.decided import Snapshot
from swell.cluster.embedded.verbs.deleting import DeleteVerbs
from swell.cluster.embedded.verbs.podverbs import PodVerbs
from swell.cluster.embedded.verbs.reading import ReadVerbs
from swell.cluster.embedded.verbs.requests import (
    Deleted,
    DeleteOptions,
    ListOptions,
    Page,
    RequestContext,
    WatchOptions,
    Written,
)
from swell.cluster.embedded.verbs.scaling import ScaleVerbs
from swell.cluster.embedded.verbs.watching import FailedWatch, Watch
from swell.cluster.embedded.verbs.writing import NAMESPACES, PendingWrite, WriteVerbs
from swell.runtime.clock import Clock
from swell.runtime.cluster import Patch, PatchKind

R = TypeVar("R")
# Runs a decision outside the event loop.
RunElsewhere: TypeAlias = Callable[[Callable[[], PendingWrite]], Awaitable[PendingWrite]]

# Decisions about one large write that may be in vain because other clients write the same object.
LARGE_TRIES_MAX = 6
# As kube-apiserver creates them at its start.
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """The verbs of one API server on one store. It does no I/O itself."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        clock: Clock,
        *,
        new_uid: Callable[[], str],
        rng: random.Random,
    ) -> None:
        self.storage = storage
        self.registry = registry
        self.clock = clock
        # Tasks that have to run for as long as the server serves.
        self.background: list[Callable[[], Coroutine[None, None, None]]] = []
        self.access = AccessIndex(storage)
        self.reviews = Reviews(self.access, clock)
        self._core = ServerCore(storage, registry, clock, new_uid, rng, self.access)
        self._reads = ReadVerbs(self._core)
        self._writes = WriteVerbs(self._core)
        self._deletes = DeleteVerbs(self._core, self._reads)
        self._pods = PodVerbs(self._core, self._deletes)
        self._scales = ScaleVerbs(self._core, self._writes)
        self._large_writes = asyncio.Lock()
        for kind in registry:
            # Of the kinds that share a collection, only the stored one schedules its objects.
            if kind.ttl_s and kind.conversion is None:
                self._core.resume_expiry(kind)

    # -- reading -----------------------------------------------------------------------------

    def get(self, kind: ServedKind, key: Key, resource_version: str = "") -> Stored:
        return self._reads.get(kind, key, resource_version)

    def list(self, kind: ServedKind, options: ListOptions) -> Page:
        return self._reads.list(kind, options)

    def watch(self, kind: ServedKind, options: WatchOptions) -> Watch | FailedWatch:
        """A watch. Its `poll` raises GoneError when its version is, or becomes, compacted."""
        return self._reads.watch(kind, options)

    def get_scale(self, kind: ServedKind, key: Key) -> Stored:
        return self._scales.get(kind, key)

    # -- writing -----------------------------------------------------------------------------

    def create(
        self, kind: ServedKind, namespace: str, body: Body, request: RequestContext
    ) -> Stored:
        """POST of an object. The server may change the body, here and in `update`."""
        if kind.is_review:
            return self.reviews.answer(self._writes.review(kind, namespace, body, request), request)
        return self._writes.commit(self.decide_create(kind, namespace, body, request)).stored

    def decide_create(
        self, kind: ServedKind, namespace: str, body: Body, request: RequestContext
    ) -> PendingWrite:
        return self._writes.decide_create(kind, namespace, body, request)

    def update(
        self,
        kind: ServedKind,
        key: Key,
        body: Body,
        request: RequestContext,
        *,
        subresource: str = "",
    ) -> Written:
        """PUT of the object, or of its `status` or `finalize` subresource."""
        if subresource == "scale":
            return Written(self._scales.update(kind, key, body, request))
        return self._writes.commit(self.decide_update(kind, key, body, request, subresource))

    def decide_update(
        self, kind: ServedKind, key: Key, body: Body, request: RequestContext, subresource: str
    ) -> PendingWrite:
        return self._writes.decide_update(kind, key, body, request, subresource)

    def patch(
        self,
        kind: ServedKind,
        key: Key,
        patch: Patch,
        request: RequestContext,
        *,
        subresource: str = "",
    ) -> Stored:
        if patch.kind is PatchKind.APPLY:
            return self.apply(kind, key, patch.body, request, subresource).stored
        if subresource == "scale":
            return self._scales.patch(kind, key, patch, request)
        return self._writes.commit(self.decide_patch(kind, key, patch, request, subresource)).stored

    def apply(
        self, kind: ServedKind, key: Key, body: object, request: RequestContext, subresource: str
    ) -> Written:
        """PATCH by server-side apply, which creates an object that is missing."""
        return self._writes.commit(self.decide_apply(kind, key, body, request, subresource))

    def decide_apply(
        self, kind: ServedKind, key: Key, body: object, request: RequestContext, subresource: str
    ) -> PendingWrite:
        if subresource == "scale":
            raise refusals.bad_request("a scale cannot be applied; patch it")
        return self._writes.decide_apply(kind, key, body, request, subresource)

    def decide_patch(
        self, kind: ServedKind, key: Key, patch: Patch, request: RequestContext, subresource: str
    ) -> PendingWrite:
        return self._writes.decide_patch(kind, key, patch, request, subresource)

    def delete(
        self, kind: ServedKind, key: Key, options: DeleteOptions, request: RequestContext
    ) -> Deleted:
        return self._deletes.delete(kind, key, options, request)

    async def delete_collection(
        self,
        kind: ServedKind,
        selection: ListOptions,
        options: DeleteOptions,
        request: RequestContext,
    ) -> Page:
        """Delete the selected objects, or a page of them; returns them as they were.

        Thousands are deleted in slices, so that other clients need not wait for all of them.
        """
        try:
            page = self._deletes.list_for_deletion(kind, selection, options, request)
            await take_all(self._deletes.delete_listed(kind, page, options, request))
            return page
        finally:
            await self.wait_durable(self.storage.version)

    def bind(self, kind: ServedKind, key: Key, binding: Body, request: RequestContext) -> int:
        """POST of a pod's `binding`; returns the pod's new version."""
        return self._pods.bind(kind, key, binding, request)

    def evict(self, kind: ServedKind, key: Key, eviction: Body, request: RequestContext) -> Deleted:
        """POST of a pod's `eviction`."""
        return self._pods.evict(kind, key, eviction, request)

    def snapshot(self, kind: ServedKind, key: Key | None) -> Snapshot:
        """The moment from which a copy of this server decides on a write of a key."""
        return Snapshot(self._core, kind, key)

    # -- durability and start ----------------------------------------------------------------

    async def answer(self, verb: Callable[[], R]) -> R:
        """Run a verb, and return when everything it may have read or written is on disk.

        Refusals wait as well: an object may be missing only in memory, and a rollback would bring
        it back. Without a journal nothing is waited for. ServerError when the disk refused a
        commit that the answer may depend on.
        """
        try:
            return verb()
        finally:
            await self.wait_durable(self.storage.version)

    async def answer_large(self, decide: Callable[[], PendingWrite], run: RunElsewhere) -> Written:
        """Decide a write elsewhere, in a thread or a copy of the process, and commit it here.

        The decision is made again when its object, or another that it depends on, has changed
        meanwhile, but not for ever (429). Large writes come one after the other from decision to
        commit: those of one object would spoil each other's decisions.
        """
        try:
            async with self._large_writes:
                for _ in range(LARGE_TRIES_MAX):
                    write = await run(decide)
                    if self._writes.is_current(write):
                        return self._writes.commit(write)
            raise refusals.changed_too_often()
        finally:
            await self.wait_durable(self.storage.version)

    async def wait_durable(self, version: int) -> None:
        """Return when a version is on disk; ServerError when it was rolled back."""
        try:
            await self.storage.wait_durable(version)
        except NotDurableError as error:
            raise refusals.not_written(str(error)) from error

    def ensure_namespaces(self, names: tuple[str, ...] = SYSTEM_NAMESPACES) -> None:
        """Create the namespaces that a new cluster has, where they are missing."""
        kind = self.registry.stored(NAMESPACES)
        if kind is None:
            raise AssertionError("namespaces are a built-in kind")
        for name in names:
            if self.storage.get(NAMESPACES, Key("", name)) is None:
                body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.create(kind, "", body, RequestContext("bootstrap"))
