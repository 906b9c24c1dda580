"""Writes that are too large, or of too slow a kind, to be decided on the event loop.

The larger ones are read and decided on by a copy of the process, those in between by a thread. A
small object may take long, too: its definition may have a schema of many alternatives. Once one of
a kind was slow, others of that kind go the same way for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from swell.api.meta import Key
from swell.cluster.embedded.access.index import GROUP as RBAC
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.http.forks import CAN_FORK, FORKED_BYTES_MIN, Forks
from swell.cluster.embedded.http.payloads import PARSED_INLINE_BYTES_MAX, off_loop
from swell.cluster.embedded.http.resource_request import ResourceRequest
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.verbs.decided import pack
from swell.cluster.embedded.verbs.requests import RequestContext, Written
from swell.cluster.embedded.verbs.writing import PendingWrite

# Their schemas are compiled once, for the check and for all later requests: a copy of the process
# would compile them for itself alone.
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
# Of the loop's processor time, for one small write; a copy is made in a tenth of it.
SLOW_S = 0.05
REMEMBERED_S = 10.0

R = TypeVar("R")


class LargeWrites:
    """Decides on large writes away from the event loop."""

    def __init__(self, api: ApiServer, forks: Forks) -> None:
        self._api = api
        self._forks = forks
        self._slow_until: dict[str, float] = {}  # by collection

    async def small(self, kind: ServedKind, verb: Callable[[], R]) -> R:
        """Carry a small write out on the loop, and note how much of its time that took."""

        def noted() -> R:
            begun = time.thread_time()
            try:
                return verb()
            finally:
                # What checks a built-in object is ours, and bounded.
                if kind.custom and time.thread_time() - begun > SLOW_S:
                    self._slow_until[kind.collection] = time.monotonic() + REMEMBERED_S

        return await self._api.answer(noted)

    def _is_slow(self, kind: ServedKind) -> bool:
        until = self._slow_until.get(kind.collection)
        if until is None or until > time.monotonic():
            return until is not None
        del self._slow_until[kind.collection]
        return False

    async def answer(
        self,
        request: ResourceRequest,
        key: Key | None,
        context: RequestContext,
        decide: Callable[[], PendingWrite],
        size: int,
    ) -> Written | None:
        """Carry out a large write of a key, None for a new one; None when it is a small one.

        `decide` reads the body, too, anew each time that it is called: a decision may change it.
        """
        # A Scale is small whatever its body holds. Objects that expire are removed by reads, which
        # only the loop may do.
        kind = request.kind
        is_simple = request.path.subresource != "scale" and not kind.ttl_s and not kind.is_review
        is_slow = self._is_slow(kind)
        if not is_simple or (size <= PARSED_INLINE_BYTES_MAX and not is_slow):
            return None
        wants_copy = size > FORKED_BYTES_MIN or is_slow
        if wants_copy and CAN_FORK and kind.collection != _DEFINITIONS:

            async def decided(decide: Callable[[], PendingWrite]) -> PendingWrite:
                snapshot = self._api.snapshot(kind, key)
                packed = await self._forks.run(lambda: pack(decide, context))
                return snapshot.unpack(packed, context)

            return await self._api.answer_large(decide, decided)
        return None if _reads_roles(kind) else await self._api.answer_large(decide, off_loop)


def _reads_roles(kind: ServedKind) -> bool:
    """Whether writes ask an index that the loop changes meanwhile: what an identity may grant."""
    return kind.group == RBAC or kind.create_on_update
