"""A decision on a write as it leaves the process that made it, and enters the one that commits it.

A copy of the server decides on a snapshot of the store (see `http.forks`). What it finds has to be
bytes and texts; the rest of a `PendingWrite` is known to the server itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from swell.api import codec
from swell.api.meta import Body, Key, Status
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.cluster.embedded.verbs.writing import PendingWrite
from swell.runtime.errors import ClusterError, error_for


class PackedDecision(NamedTuple):
    """A decision in a form that can be sent, or the Status of a refusal; with the warnings."""

    warnings: list[str]
    refusal: Status | None = None
    key: Key = Key("", "")
    verb: str = ""
    subresource: str = ""
    body: bytes | None = None
    removes: bool = False
    collections_read: tuple[str, ...] = ()


def pack(decide: Callable[[], PendingWrite], request: RequestContext) -> PackedDecision:
    """Decide, in the copy."""
    try:
        write = decide()
    except ClusterError as error:
        return PackedDecision(request.warnings, error.status)
    context = write.context
    return PackedDecision(
        request.warnings,
        None,
        write.key,
        context.verb,
        context.subresource,
        codec.encode(write.body) if write.body is not None else None,
        write.removes,
        tuple(context.collections_read),
    )


class Snapshot:
    """The moment at which a copy of the server was made, as far as the server must remember it."""

    def __init__(self, core: ServerCore, kind: ServedKind, key: Key | None) -> None:
        self._core = core
        self._kind = kind
        self._version = core.storage.version
        self._before: Stored | None = None
        if key is not None:
            self._before = core.storage.get(kind.collection, key)

    def unpack(self, packed: PackedDecision, request: RequestContext) -> PendingWrite:
        """The decision of the copy as one of this process; ClusterError if it was a refusal."""
        request.warnings[:] = packed.warnings
        if packed.refusal is not None:
            raise error_for(packed.refusal)
        context = self._core.context(packed.verb, request, packed.subresource)
        context.collections_read = set(packed.collections_read)
        body: Body | None = codec.decode(packed.body, dict) if packed.body is not None else None
        return PendingWrite(
            self._kind, packed.key, self._before, body, context, self._version, packed.removes
        )
