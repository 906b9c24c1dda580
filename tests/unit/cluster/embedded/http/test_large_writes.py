"""Which writes are decided away from the loop: large ones, and those of kinds that were slow."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.http import largewrites
from swell.cluster.embedded.http.forks import CAN_FORK, FORKED_BYTES_MIN, Forks
from swell.cluster.embedded.http.largewrites import LargeWrites
from swell.cluster.embedded.http.resource_request import ResourceRequest
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.verbs.requests import RequestContext, Written
from swell.cluster.embedded.verbs.writing import PendingWrite
from tests.unit.cluster.embedded.server import NAMESPACE, Server


class Writer:
    """Creates ConfigMaps as the handler of requests does, with or without a copy."""

    def __init__(self) -> None:
        self.server = Server()
        self.writes = LargeWrites(self.server.api, Forks())
        self.kind = self.server.kind("configmaps")
        self.n_here = 0

    def custom(self) -> ServedKind:
        """The same kind, as if a definition had brought it."""
        return replace(self.kind, custom=True)

    async def away(self, kind: ServedKind, name: str, size: int) -> Written | None:
        path = SimpleNamespace(subresource="")
        request = cast("ResourceRequest", cast(Any, SimpleNamespace(kind=kind, path=path)))
        context = RequestContext("tester")
        warned = context.warnings

        def decide() -> PendingWrite:
            self.n_here += 1
            context.warnings.append("seen")
            return self.server.api.decide_create(self.kind, NAMESPACE, _body(name), context)

        found = await self.writes.answer(request, None, context, decide, size)
        assert warned == (["seen"] if found is not None else [])
        return found


def _body(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}


@pytest.mark.skipif(not CAN_FORK, reason="copies are made on Linux only")
def test_large_write_is_decided_in_a_copy_and_committed_here() -> None:
    writer = Writer()
    written = asyncio.run(writer.away(writer.kind, "a", FORKED_BYTES_MIN + 1))

    assert written is not None
    assert written.created
    assert writer.server.get("configmaps", "a")["metadata"]["name"] == "a"
    assert writer.n_here == 0, "only the copy has decided"


def test_kind_that_was_slow_goes_the_same_way_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(largewrites, "SLOW_S", -1.0)
    writer = Writer()
    custom = writer.custom()

    async def main() -> None:
        assert await writer.away(custom, "a", 100) is None
        await writer.writes.small(custom, lambda: None)
        assert writer.writes._is_slow(custom)
        monkeypatch.setattr(time, "monotonic", lambda: float("inf"))
        assert not writer.writes._is_slow(custom)

    asyncio.run(main())


def test_built_in_kind_is_never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of the interpreter must not send every pod through a copy."""
    monkeypatch.setattr(largewrites, "SLOW_S", -1.0)
    writer = Writer()

    async def main() -> None:
        await writer.writes.small(writer.kind, lambda: None)
        assert await writer.away(writer.kind, "a", 100) is None

    asyncio.run(main())
