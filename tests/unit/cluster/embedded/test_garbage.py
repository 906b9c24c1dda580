"""Garbage collection: background, foreground, orphan; by UID; with work bounded by what changed."""

from __future__ import annotations

import asyncio

from swell.api.meta import Body
from swell.cluster.embedded.controllers.garbage import ACTOR, GarbageCollector
from swell.cluster.embedded.storage import Commit, Stored
from swell.cluster.embedded.verbs.requests import DeleteOptions
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world

FOREGROUND = DeleteOptions(propagation="Foreground")
ORPHAN = DeleteOptions(propagation="Orphan")


def reference(owner: Stored, **fields: object) -> Body:
    kind, name = owner.body["kind"], owner.metadata["name"]
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": owner.uid, **fields}


def child(world: World, name: str, *owners: Body, plural: str = "secrets") -> Stored:
    return world.create(plural, metadata={"name": name, "ownerReferences": list(owners)})


def left(world: World) -> list[str]:
    return [
        key.name
        for collection in ("configmaps", "secrets")
        for key, _ in world.storage.list(collection, NAMESPACE).items
    ]


def test_background_deletes_dependents_after_their_owner() -> None:
    """The owner goes at once, then what it owned, and what that owned."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = world.create("configmaps", "own")
    kid = child(world, "kid", reference(owner))
    child(world, "grandkid", reference(kid))
    child(world, "stranger")

    assert world.delete("configmaps", "own").gone
    collector.drain()

    assert left(world) == ["stranger"]


def test_foreground_owner_goes_last() -> None:
    """The owner waits for dependents that block it."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = world.create("configmaps", "own")
    child(world, "kid", reference(owner, blockOwnerDeletion=True))
    order: list[str] = []
    world.storage.on_commit.append(lambda c: order.append(c.key.name) if not c.after else None)

    assert not world.delete("configmaps", "own", FOREGROUND).gone
    collector.drain()

    assert order == ["kid", "own"]


def test_foreground_waits_for_a_dependents_finalizer() -> None:
    """A blocking dependent that is held holds its owner; one that does not block does not."""
    world = a_world()
    collector = GarbageCollector(world.api)
    for name, blocks in (("waits", True), ("goes", False)):
        owner = world.create("configmaps", name)
        held = {"finalizers": ["x.example/f"], "name": f"kid-of-{name}"}
        refs = [reference(owner, blockOwnerDeletion=blocks)]
        world.create("secrets", metadata={**held, "ownerReferences": refs})
        world.delete("configmaps", name, FOREGROUND)
    collector.drain()

    assert left(world) == ["waits", "kid-of-goes", "kid-of-waits"]
    world.patch("secrets", "kid-of-waits", {"metadata": {"finalizers": None}})
    collector.drain()
    assert left(world) == ["kid-of-goes"]


def test_foreground_passes_down_the_tree() -> None:
    """Dependents with dependents of their own are deleted in the foreground too."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = world.create("configmaps", "own")
    kid = child(world, "kid", reference(owner, blockOwnerDeletion=True))
    child(world, "grandkid", reference(kid, blockOwnerDeletion=True))
    order: list[str] = []
    world.storage.on_commit.append(lambda c: order.append(c.key.name) if not c.after else None)

    world.delete("configmaps", "own", FOREGROUND)
    collector.drain()

    assert order == ["grandkid", "kid", "own"]


def test_foreground_circle_comes_to_an_end() -> None:
    """Objects that own each other do not wait for each other for ever."""
    world = a_world()
    collector = GarbageCollector(world.api)
    first = world.create("configmaps", "first")
    second = child(world, "second", reference(first, blockOwnerDeletion=True), plural="configmaps")
    back = [reference(second, blockOwnerDeletion=True)]
    world.patch("configmaps", "first", {"metadata": {"ownerReferences": back}})
    collector.drain()

    world.delete("configmaps", "first", FOREGROUND)
    collector.drain()

    assert left(world) == []


def test_orphan_frees_dependents_before_the_owner_goes() -> None:
    """Dependents stay, without the reference; other references are kept."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner, other = world.create("configmaps", "own"), world.create("configmaps", "other")
    child(world, "kid", reference(owner), reference(other))

    world.delete("configmaps", "own", ORPHAN)
    collector.drain()

    assert left(world) == ["other", "kid"]
    assert world.get("secrets", "kid").metadata["ownerReferences"] == [reference(other)]


def test_owner_is_known_by_uid() -> None:
    """A dependent of an earlier owner of the same name goes; a real owner keeps its own."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = world.create("configmaps", "own")
    child(world, "mine", reference(owner))
    child(world, "other", {**reference(owner), "uid": "11111111"})

    collector.drain()

    assert left(world) == ["own", "mine"]


def test_one_of_two_owners_keeps_the_dependent() -> None:
    """While one owner lives the object does; references to gone owners are taken off."""
    world = a_world()
    collector = GarbageCollector(world.api)
    first, second = world.create("configmaps", "first"), world.create("configmaps", "second")
    child(world, "kid", reference(first), reference(second))

    world.delete("configmaps", "first")
    collector.drain()

    assert world.get("secrets", "kid").metadata["ownerReferences"] == [reference(second)]
    world.delete("configmaps", "second")
    collector.drain()
    assert left(world) == []


def test_unknown_owner_kind_deletes_nothing() -> None:
    """What cannot be looked up cannot be said to be gone."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = {"apiVersion": "none.example/v1", "kind": "None", "name": "n", "uid": "u"}
    child(world, "kid", owner)

    collector.drain()

    assert left(world) == ["kid"]


def test_owner_seen_to_go_is_gone_with_its_kind() -> None:
    """When a definition goes, so do its objects, and what those owned is collected after that."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = world.create("widgets", "own")
    child(world, "kid", {**reference(owner), "apiVersion": "example.com/v1"})

    world.delete("widgets", "own")
    world.registry.remove("example.com", "widgets")
    collector.drain()

    assert left(world) == []


def test_collector_started_late_finds_what_was_left() -> None:
    """Edges are not needed: orphans and waiting owners of the past are found at start."""
    world = a_world()
    owner = world.create("configmaps", "own")
    child(world, "kid", reference(owner))
    world.delete("configmaps", "own")

    GarbageCollector(world.api).drain()

    assert left(world) == []


def test_writes_that_concern_no_owner_cost_nothing() -> None:
    """Status and label writes of owned objects make nothing due; the actor is on the commits."""
    world = a_world()
    collector = GarbageCollector(world.api)
    owner = world.create("configmaps", "own")
    child(world, "kid", reference(owner))
    collector.drain()
    seen: list[Commit] = []
    world.storage.on_commit.append(seen.append)

    world.patch("secrets", "kid", {"metadata": {"labels": {"a": "b"}}})
    assert collector.idle
    world.delete("configmaps", "own")
    collector.drain()

    assert seen[-1].actor == ACTOR


def test_run_collects_as_it_happens() -> None:
    """The task sleeps until a commit concerns it, then does all that follows."""
    world = a_world()

    async def life() -> list[str]:
        task = asyncio.create_task(GarbageCollector(world.api).run())
        owner = world.create("configmaps", "own")
        child(world, "kid", reference(owner))
        await asyncio.sleep(0)
        world.delete("configmaps", "own")
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        return left(world)

    assert asyncio.run(life()) == []
