"""Objects of a shape we do not understand: handed over as such, and hiding no other."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from swell.api.meta import ObjectMeta
from swell.api.resource import Resource
from swell.runtime.cluster import Malformed, merge_patch
from swell.runtime.errors import MalformedError
from tests.contract.world import GROUP, WIDGET, World, behaviour


class Free(msgspec.Struct, frozen=True):
    word: str = ""


class Spec(msgspec.Struct, frozen=True):
    free: Free = Free()


class Strict(msgspec.Struct, frozen=True):
    """A widget, as somebody believes it to be: with a text where anything may stand."""

    metadata: ObjectMeta
    spec: Spec


STRICT: Resource[Strict] = Resource(GROUP, "v1", "Widget", "widgets", Strict)
ODD = {"size": 1, "free": {"word": 5}}
FINE = {"size": 1, "free": {"word": "hello"}}


@behaviour
async def list_hands_over_strangers(world: World) -> None:
    """A list holds what is understood, and the rest beside it."""
    await world.make(WIDGET, "fine", spec=FINE)
    odd = await world.make(WIDGET, "odd", spec=ODD)
    listed = await world.cluster.list(STRICT, world.selection())

    assert [item.metadata.name for item in listed.items] == ["fine"]
    [stranger] = listed.malformed
    assert stranger.key == world.key("odd")
    assert stranger.uid == odd["metadata"]["uid"]
    assert stranger.body["spec"]["free"] == {"word": 5}
    assert "word" in stranger.error


@behaviour
async def watch_hands_over_strangers(world: World) -> None:
    """A watch goes on after an event it cannot decode."""
    since = await world.version(WIDGET)
    await world.make(WIDGET, "odd", spec=ODD)
    await world.make(WIDGET, "fine", spec=FINE)
    seen: list[object] = []
    chosen = world.selection()
    watching = world.cluster.watch(STRICT, chosen, resource_version=since, timeout_s=30)
    async with asyncio.timeout(20), watching as events:
        async for event in events:
            if event.object is not None:
                seen.append(event.object)
            if len(seen) == 2:
                break

    assert isinstance(seen[0], Malformed)
    assert isinstance(seen[1], Strict)


@behaviour
async def one_stranger_is_an_error(world: World) -> None:
    """Who asks for one object is told that it came in another shape; a write has happened."""
    await world.make(WIDGET, "odd", spec=ODD)
    for doing in (
        world.cluster.get(STRICT, world.key("odd")),
        world.cluster.patch(STRICT, world.key("odd"), merge_patch({"spec": {"size": 2}})),
    ):
        with pytest.raises(MalformedError) as reported:
            await doing
        assert reported.value.key == world.key("odd")
    assert (await world.get(WIDGET, "odd"))["spec"]["size"] == 2
