"""Large bodies share a bounded room, and large lists are sent piece by piece."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from swell.api.codec import decode
from swell.api.meta import Body
from swell.cluster.embedded.http.payloads import PARSED_INLINE_BYTES_MAX, LargeBodies
from swell.cluster.embedded.http.responses import PIECE_BYTES, Representation
from swell.cluster.embedded.http.routing import Form
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import Page
from swell.runtime.errors import ClusterError
from tests.unit.cluster.embedded.server import Server

MIB = 1 << 20


def _request(n_bytes: int | None) -> web.BaseRequest:
    request: Any = SimpleNamespace(body_exists=True, content_length=n_bytes)
    return cast("web.BaseRequest", request)


def test_bodies_wait_for_room_in_order() -> None:
    """The second waits although the third would fit; the small one does not wait at all."""
    done: list[str] = []

    async def main() -> None:
        room, end = LargeBodies(4 * MIB), asyncio.Event()

        async def send(name: str, n_bytes: int | None) -> None:
            async with room.room_for(_request(n_bytes)):
                done.append(name)
                await end.wait()

        async with asyncio.TaskGroup() as group:
            for name, size in (("first", 3 * MIB), ("unsaid", None), ("third", MIB // 2)):
                group.create_task(send(name, size))
            group.create_task(send("small", PARSED_INLINE_BYTES_MAX))
            await asyncio.sleep(0.05)
            assert sorted(done) == ["first", "small"]
            end.set()

    asyncio.run(main())
    assert sorted(done) == ["first", "small", "third", "unsaid"]


def test_body_without_room_in_time_is_refused() -> None:
    async def main() -> int:
        room = LargeBodies(MIB)
        async with room.room_for(_request(MIB)):
            with pytest.raises(ClusterError) as refused:
                async with room.room_for(_request(MIB), limit_s=0.01):
                    pass
        async with room.room_for(_request(MIB)):  # what gave up holds nothing
            return refused.value.status.code

    assert asyncio.run(main()) == 429


@pytest.mark.parametrize("n_items", [0, 1, 7, 3_000])
def test_pieces_of_a_list_are_the_list(n_items: int) -> None:
    kind = Server().kind("configmaps")
    items = [
        Stored.of(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": str(n)}, "d": "x" * 300},
            n + 2,
        )
        for n in range(n_items)
    ]
    shown = Representation(kind, Form.OBJECT, now=0.0)
    pieces = list(shown.page_pieces(Page(tuple(items), 9)))
    read: Body = decode(b"".join(pieces), dict)

    assert [item["metadata"]["name"] for item in read["items"]] == [str(n) for n in range(n_items)]
    assert max(len(piece) for piece in pieces) < PIECE_BYTES + 4_096
    assert json.loads(shown.page(Page(tuple(items), 9))) == read
