"""Dry runs: everything is checked, nothing is kept."""

from __future__ import annotations

from swell.api.kinds import SECRETS
from swell.runtime.cluster import Deletion, WriteOptions, merge_patch
from swell.runtime.errors import AlreadyExistsError, InvalidError, NotFoundError
from tests.contract.world import CONFIG, POD, World, a_pod, behaviour, refused

TRY = WriteOptions(dry_run=True)


@behaviour
async def create_is_not_kept(world: World) -> None:
    """A tried create answers with the object and leaves nothing behind."""
    made = await world.cluster.create(CONFIG, world.body(CONFIG, "a", data={"k": "1"}), TRY)

    assert made["data"] == {"k": "1"}
    assert await world.names(CONFIG) == []


@behaviour
async def create_shows_defaults(world: World) -> None:
    """What would be filled in is shown."""
    made = await world.cluster.create(POD, world.body(POD, "a", **a_pod()), TRY)

    assert made["spec"]["restartPolicy"] == "Always"
    assert made["metadata"]["uid"]


@behaviour
async def create_is_checked(world: World) -> None:
    """What would be refused is refused."""
    await refused(InvalidError, world.cluster.create(CONFIG, world.body(CONFIG, "B"), TRY))
    await world.make(CONFIG, "a")
    await refused(AlreadyExistsError, world.cluster.create(CONFIG, world.body(CONFIG, "a"), TRY))


@behaviour
async def update_is_not_kept(world: World) -> None:
    """A tried update keeps object and version."""
    made = await world.make(CONFIG, "a", data={"k": "1"})
    tried = await world.cluster.update(CONFIG, {**made, "data": {"k": "2"}}, TRY)

    assert tried["data"] == {"k": "2"}
    assert await world.get(CONFIG, "a") == made


@behaviour
async def patch_is_not_kept(world: World) -> None:
    """A tried patch shows its result only."""
    made = await world.make(CONFIG, "a", data={"k": "1"})
    patch = merge_patch({"data": {"k": "2"}})
    tried = await world.cluster.patch(CONFIG, world.key("a"), patch, TRY)

    assert tried["data"] == {"k": "2"}
    assert await world.get(CONFIG, "a") == made


@behaviour
async def delete_is_not_done(world: World) -> None:
    """A tried delete leaves the object."""
    await world.make(CONFIG, "a")
    await world.cluster.delete(CONFIG, world.key("a"), Deletion(dry_run=True))

    assert await world.names(CONFIG) == ["a"]


@behaviour
async def tried_delete_names_the_object(world: World) -> None:
    """Who may delete an object and not read it learns its UID so; nothing else is done."""
    for resource in (CONFIG, SECRETS.untyped(), POD):
        made = await world.make(resource, "a", **(a_pod() if resource is POD else {}))
        assert await world.cluster.try_delete(resource, world.key("a")) == made["metadata"]["uid"]
        assert await world.get(resource, "a") == made
    await refused(NotFoundError, world.cluster.try_delete(CONFIG, world.key("b")))


@behaviour
async def no_event_is_sent(world: World) -> None:
    """Watchers see nothing of it."""
    since = await world.version()
    await world.cluster.create(CONFIG, world.body(CONFIG, "a"), TRY)
    await world.make(CONFIG, "b")
    [(_, body)] = await world.events(CONFIG, since, 1)

    assert body["metadata"]["name"] == "b"


@behaviour
async def collection_is_not_deleted(world: World) -> None:
    """Nor is a collection."""
    await world.make(CONFIG, "a")
    await world.cluster.delete_collection(CONFIG, world.selection(), Deletion(dry_run=True))

    assert await world.names(CONFIG) == ["a"]
