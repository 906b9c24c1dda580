"""Writes that are too large to be decided on the event loop.

The larger ones are read and decided on by a copy of the process, those in between by a thread.
"""

from __future__ import annotations

from collections.abc import Callable

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


class LargeWrites:
    """Decides on large writes away from the event loop."""

    def __init__(self, api: ApiServer, forks: Forks) -> None:
        self._api = api
        self._forks = forks

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
        if size <= PARSED_INLINE_BYTES_MAX or not is_simple:
            return None
        if size > FORKED_BYTES_MIN and CAN_FORK and kind.collection != _DEFINITIONS:

            async def decided(decide: Callable[[], PendingWrite]) -> PendingWrite:
                snapshot = self._api.snapshot(kind, key)
                packed = await self._forks.run(lambda: pack(decide, context))
                return snapshot.unpack(packed, context)

            return await self._api.answer_large(decide, decided)
        return None if _reads_roles(kind) else await self._api.answer_large(decide, off_loop)


def _reads_roles(kind: ServedKind) -> bool:
    """Whether writes ask an index that the loop changes meanwhile: what an identity may grant."""
    return kind.group == RBAC or kind.create_on_update
