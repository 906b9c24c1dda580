"""Finalizers hold an object until their owners let go."""

from __future__ import annotations

from swell.runtime.errors import ClusterError, InvalidError, NotFoundError
from tests.contract.world import CONFIG, WIDGET, World, behaviour, refused

HELD = {"finalizers": ["example.com/x"]}
FREE = {"metadata": {"finalizers": None}}


@behaviour
async def object_waits(world: World) -> None:
    """A delete only marks an object that has a finalizer."""
    await world.make(CONFIG, "a", metadata=HELD)
    left = await world.cluster.delete(CONFIG, world.key("a"))

    assert left is not None
    assert left["metadata"]["deletionTimestamp"]
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    await world.merge(CONFIG, "a", FREE)


@behaviour
async def last_one_removes(world: World) -> None:
    """When the last finalizer goes, so does the object."""
    await world.make(CONFIG, "a", metadata={"finalizers": ["example.com/x", "example.com/y"]})
    await world.cluster.delete(CONFIG, world.key("a"))
    await world.merge(CONFIG, "a", {"metadata": {"finalizers": ["example.com/y"]}})
    assert await world.names(CONFIG) == ["a"]

    await world.merge(CONFIG, "a", FREE)
    await refused(NotFoundError, world.get(CONFIG, "a"))


@behaviour
async def removal_without_deletion(world: World) -> None:
    """A finalizer taken off a living object does nothing."""
    await world.make(CONFIG, "a", metadata=HELD)
    patched = await world.merge(CONFIG, "a", FREE)

    assert "finalizers" not in patched["metadata"]
    assert await world.names(CONFIG) == ["a"]


@behaviour
async def none_are_added_to_the_dying(world: World) -> None:
    """Who is on the way out is not held again."""
    await world.make(CONFIG, "a", metadata=HELD)
    await world.cluster.delete(CONFIG, world.key("a"))
    more = {"metadata": {"finalizers": ["example.com/x", "example.com/new"]}}
    await refused(InvalidError, world.merge(CONFIG, "a", more))
    await world.merge(CONFIG, "a", FREE)


@behaviour
async def second_delete_changes_nothing(world: World) -> None:
    """Being told twice is being told once."""
    await world.make(CONFIG, "a", metadata=HELD)
    first = await world.cluster.delete(CONFIG, world.key("a"))
    second = await world.cluster.delete(CONFIG, world.key("a"))

    assert first is not None
    assert second is not None
    assert first["metadata"] == second["metadata"]
    await world.merge(CONFIG, "a", FREE)


@behaviour
async def deletion_cannot_be_undone(world: World) -> None:
    """A deletion timestamp stays."""
    await world.make(CONFIG, "a", metadata=HELD)
    left = await world.cluster.delete(CONFIG, world.key("a"))
    assert left is not None
    del left["metadata"]["deletionTimestamp"]
    updated = await world.cluster.update(CONFIG, left)

    assert updated["metadata"]["deletionTimestamp"]
    await world.merge(CONFIG, "a", FREE)


@behaviour
async def the_dying_can_still_change(world: World) -> None:
    """Whoever cleans up may write down how far it got."""
    await world.make(CONFIG, "a", metadata=HELD)
    await world.cluster.delete(CONFIG, world.key("a"))
    patched = await world.merge(CONFIG, "a", {"data": {"k": "cleaning"}})

    assert patched["data"] == {"k": "cleaning"}
    await world.merge(CONFIG, "a", FREE)


@behaviour
async def custom_kinds_too(world: World) -> None:
    """Custom resources are held like any other."""
    await world.make(WIDGET, "a", spec={"size": 1}, metadata=HELD)
    assert await world.cluster.delete(WIDGET, world.key("a")) is not None
    await world.merge(WIDGET, "a", FREE)

    await refused(NotFoundError, world.get(WIDGET, "a"))


@behaviour
async def deleted_event_shows_the_finalizer(world: World) -> None:
    """The last event still shows what held the object."""
    await world.make(CONFIG, "a", metadata=HELD)
    left = await world.cluster.delete(CONFIG, world.key("a"))
    assert left is not None
    await world.merge(CONFIG, "a", FREE)
    [(kind, body)] = await world.events(CONFIG, left["metadata"]["resourceVersion"], 1)

    assert (kind, body["metadata"]["finalizers"]) == ("DELETED", ["example.com/x"])


@behaviour
async def names_of_finalizers(world: World) -> None:
    """A finalizer's name is qualified."""
    for name in ("a b", "", "x/y/z"):
        doing = world.make(CONFIG, "a", metadata={"finalizers": [name]})
        await refused(ClusterError, doing)
