"""Owner references: dependents go with their owner, wait for it, or are set free."""

from __future__ import annotations

from swell.api.meta import Body
from swell.runtime.cluster import Deletion
from tests.contract.world import CONFIG, POD, WIDGET, World, behaviour, eventually, gone


def owned_by(owner: Body, **more: object) -> Body:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {"ownerReferences": [reference]}


@behaviour
async def background(world: World) -> None:
    """The owner goes first, its dependents follow."""
    owner = await world.make(CONFIG, "owner")
    await world.make(CONFIG, "child", metadata=owned_by(owner))
    deleted = await world.cluster.delete(
        CONFIG, world.key("owner"), Deletion(propagation="Background")
    )

    assert deleted is None
    await gone(world, CONFIG, "child")


@behaviour
async def foreground(world: World) -> None:
    """The owner waits for the dependents that block it."""
    owner = await world.make(CONFIG, "owner")
    held = owned_by(owner, blockOwnerDeletion=True) | {"finalizers": ["example.com/x"]}
    await world.make(CONFIG, "child", metadata=held)
    left = await world.cluster.delete(
        CONFIG, world.key("owner"), Deletion(propagation="Foreground")
    )
    assert left is not None
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_is_reported() -> bool:
        return "deletionTimestamp" in (await world.get(CONFIG, "child"))["metadata"]

    await eventually(child_is_reported)
    assert "owner" in await world.names(CONFIG)
    await world.merge(CONFIG, "child", {"metadata": {"finalizers": None}})
    await gone(world, CONFIG, "owner")


@behaviour
async def orphan(world: World) -> None:
    """Dependents lose their owner and stay."""
    owner = await world.make(CONFIG, "owner")
    await world.make(CONFIG, "child", metadata=owned_by(owner))
    await world.cluster.delete(CONFIG, world.key("owner"), Deletion(propagation="Orphan"))
    await gone(world, CONFIG, "owner")

    assert "ownerReferences" not in (await world.get(CONFIG, "child"))["metadata"]


@behaviour
async def grandchildren(world: World) -> None:
    """The whole tree goes."""
    owner = await world.make(CONFIG, "owner")
    child = await world.make(CONFIG, "child", metadata=owned_by(owner))
    await world.make(CONFIG, "grandchild", metadata=owned_by(child))
    await world.cluster.delete(CONFIG, world.key("owner"), Deletion(propagation="Background"))

    await gone(world, CONFIG, "grandchild")


@behaviour
async def two_owners(world: World) -> None:
    """An object lives as long as one of its owners."""
    first, second = await world.make(CONFIG, "o1"), await world.make(CONFIG, "o2")
    both = owned_by(first)["ownerReferences"] + owned_by(second)["ownerReferences"]
    await world.make(CONFIG, "child", metadata={"ownerReferences": both})
    await world.cluster.delete(CONFIG, world.key("o1"), Deletion(propagation="Background"))

    async def one_owner() -> bool:
        child = await world.get(CONFIG, "child")
        return len(child["metadata"]["ownerReferences"]) == 1

    await eventually(one_owner)
    await world.cluster.delete(CONFIG, world.key("o2"), Deletion(propagation="Background"))
    await gone(world, CONFIG, "child")


@behaviour
async def owner_that_never_was(world: World) -> None:
    """An owner is known by its UID: an object of another's is garbage."""
    owner = await world.make(CONFIG, "owner")
    reference = owned_by(owner)
    reference["ownerReferences"][0]["uid"] = "11111111-2222-3333-4444-555555555555"
    await world.make(CONFIG, "child", metadata=reference)

    await gone(world, CONFIG, "child")
    assert await world.names(CONFIG) == ["owner"]


@behaviour
async def custom_owner_of_pods(world: World) -> None:
    """A custom resource owns pods like anything else."""
    owner = await world.make(WIDGET, "owner", spec={"size": 1})
    await world.make_pod("child", metadata=owned_by(owner, controller=True))
    await world.cluster.delete(WIDGET, world.key("owner"))

    await gone(world, POD, "child")
