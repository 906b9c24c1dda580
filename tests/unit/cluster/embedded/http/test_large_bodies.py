"""Large bodies share a bounded room, and large lists are sent piece by piece."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from swell.api.codec import decode
from swell.api.meta import Body, Key
from swell.cluster.embedded.copies import backup_pieces
from swell.cluster.embedded.http.payloads import PARSED_INLINE_BYTES_MAX, LargeBodies
from swell.cluster.embedded.http.responses import PIECE_BYTES, Representation
from swell.cluster.embedded.http.routing import Form
from swell.cluster.embedded.storage import Storage, Stored, StoredChange
from swell.cluster.embedded.verbs.requests import Page, StoredEvent
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import EventType
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


def _bytes_behind(piece: bytes | memoryview) -> object:
    return piece.obj if isinstance(piece, memoryview) else piece


@pytest.mark.parametrize("is_custom", [False, True])
def test_large_objects_of_a_list_are_not_copied(is_custom: bool) -> None:
    """Hundreds of clients that do not read would otherwise hold a copy each."""
    kind = replace(Server().kind("configmaps"), custom=is_custom)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "d": ["x"] * 90_000}
    items = tuple(Stored.of(body, n) for n in range(2, 5))
    pieces = list(Representation(kind, Form.OBJECT, now=0.0).page_pieces(Page(items, 9)))

    assert {id(_bytes_behind(piece)) for piece in pieces} >= {id(stored.raw) for stored in items}
    assert [one["d"] for one in decode(b"".join(pieces), dict)["items"]] == [body["d"]] * 3


def test_large_object_of_an_event_is_not_copied() -> None:
    kind = Server().kind("configmaps")
    shown = Representation(kind, Form.OBJECT, now=0.0)
    large, small = (Stored.of({"metadata": {}, "d": "x" * n}, 2) for n in (PIECE_BYTES, 10))
    event = StoredEvent(EventType.ADDED, large, 2)
    parts = shown.shared_parts(event)

    assert parts is not None
    assert parts[1] is large.raw
    assert b"".join(parts) == shown.event(event, first=False)
    assert shown.shared_parts(StoredEvent(EventType.ADDED, small, 2)) is None
    assert shown.shared_parts(StoredEvent(EventType.BOOKMARK, None, 2)) is None


def test_large_objects_of_a_backup_are_not_copied() -> None:
    storage = Storage(SystemClock().now)
    for n in range(2):
        body: Body = {"metadata": {"name": f"n{n}"}, "d": "x" * 500_000}
        storage.commit(StoredChange("configmaps", Key("d", f"n{n}"), None, body, "me", "create"))
    held = [stored.raw for _, stored in storage.list("configmaps").items]
    pieces = list(backup_pieces(storage))
    lines = b"".join(pieces).splitlines()

    assert {id(piece) for piece in pieces} >= {id(raw) for raw in held}
    assert [decode(line, list)[4]["d"] for line in lines[1:]] == ["x" * 500_000] * 2
