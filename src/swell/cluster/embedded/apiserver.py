"""The API server as an object: every verb on every served kind, below HTTP.

Methods are synchronous, and that is what makes them atomic: no other request runs between a check
and the commit it allows. Each takes the call (who asks, how), and raises `runtime.errors` with the
Status a real server would send. Whoever passes answers on runs the verbs through `answer`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import TypeVar

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.registry import Registry, ServedKind
from swell.cluster.embedded.storage import NotStoredError, Storage, Stored
from swell.cluster.embedded.verbs.core import ServerCore
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
from swell.cluster.embedded.verbs.writing import NAMESPACES, WriteVerbs
from swell.runtime.clock import Clock
from swell.runtime.cluster import Patch

R = TypeVar("R")

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
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
        # What has to run beside the server, for as long as it serves.
        self.background: list[Callable[[], Coroutine[None, None, None]]] = []
        self._core = ServerCore(storage, registry, clock, new_uid, rng)
        self._reading = ReadVerbs(self._core)
        self._writing = WriteVerbs(self._core)
        self._deleting = DeleteVerbs(self._core, self._reading)
        self._pods = PodVerbs(self._core, self._deleting)
        self._scaling = ScaleVerbs(self._core, self._writing)
        for kind in registry:
            if kind.ttl_s and kind.conversion is None:
                self._core.resume_expiry(kind)

    # -- reading -----------------------------------------------------------------------------

    def get(self, kind: ServedKind, key: Key, resource_version: str = "") -> Stored:
        return self._reading.get(kind, key, resource_version)

    def list(self, kind: ServedKind, options: ListOptions) -> Page:
        return self._reading.list(kind, options)

    def watch(self, kind: ServedKind, options: WatchOptions) -> Watch | FailedWatch:
        """The watch's `poll` raises GoneError when its version is, or becomes, compacted."""
        return self._reading.watch(kind, options)

    def get_scale(self, kind: ServedKind, key: Key) -> Stored:
        return self._scaling.get(kind, key)

    # -- writing -----------------------------------------------------------------------------

    def create(self, kind: ServedKind, namespace: str, body: Body, call: RequestContext) -> Stored:
        """The body is the server's to change from now on, here and in `update`."""
        return self._writing.create(kind, namespace, body, call)

    def update(
        self, kind: ServedKind, key: Key, body: Body, call: RequestContext, *, subresource: str = ""
    ) -> Written:
        """PUT of the object, or of its `status` or `finalize` subresource."""
        if subresource == "scale":
            return Written(self._scaling.update(kind, key, body, call))
        return self._writing.update(kind, key, body, call, subresource)

    def patch(
        self,
        kind: ServedKind,
        key: Key,
        patch: Patch,
        call: RequestContext,
        *,
        subresource: str = "",
    ) -> Stored:
        if subresource == "scale":
            return self._scaling.patch(kind, key, patch, call)
        return self._writing.patch(kind, key, patch, call, subresource)

    def delete(
        self, kind: ServedKind, key: Key, options: DeleteOptions, call: RequestContext
    ) -> Deleted:
        return self._deleting.delete(kind, key, options, call)

    def delete_collection(
        self, kind: ServedKind, selection: ListOptions, options: DeleteOptions, call: RequestContext
    ) -> Page:
        """Delete what is selected, or a page of it; the page as it was."""
        return self._deleting.delete_collection(kind, selection, options, call)

    def bind(self, kind: ServedKind, key: Key, binding: Body, call: RequestContext) -> int:
        """POST of a pod's `binding`; the version to await."""
        return self._pods.bind(kind, key, binding, call)

    def evict(self, kind: ServedKind, key: Key, eviction: Body, call: RequestContext) -> Deleted:
        """POST of a pod's `eviction`."""
        return self._pods.evict(kind, key, eviction, call)

    # -- the world around --------------------------------------------------------------------

    async def answer(self, verb: Callable[[], R]) -> R:
        """Run a verb, and return when all it may have seen or done is on disk.

        Refusals wait as well: an object that is gone in memory alone is not gone. In memory mode
        nothing is waited for. ServerError when the disk refused what the answer stands on.
        """
        try:
            return verb()
        finally:
            await self.settled(self.storage.version)

    async def settled(self, version: int) -> None:
        """Return when everything up to a version may be shown; ServerError if it was undone."""
        try:
            await self.storage.settled(version)
        except NotStoredError as error:
            raise refusals.internal(f"the store could not be written: {error}") from error

    def ensure_namespaces(self, names: tuple[str, ...] = SYSTEM_NAMESPACES) -> None:
        """Create the namespaces a cluster begins with, where they are missing."""
        kind = self.registry.stored(NAMESPACES)
        if kind is None:
            raise AssertionError("namespaces are a built-in kind")
        for name in names:
            if self.storage.get(NAMESPACES, Key("", name)) is None:
                body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.create(kind, "", body, RequestContext("bootstrap"))
