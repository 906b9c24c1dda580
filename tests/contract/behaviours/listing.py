"""Get and list: versions, order, pages of one snapshot."""

from __future__ import annotations

from swell.api.meta import Key
from swell.runtime.cluster import Selection
from swell.runtime.errors import BadRequestError, ClusterError, NotFoundError
from tests.contract.world import CONFIG, LEASE, NODE, WIDGET, World, behaviour, refused


async def fill(world: World, n: int) -> None:
    for index in range(n):
        await world.make(CONFIG, f"c{index}")


@behaviour
async def get_sees_the_last_write(world: World) -> None:
    """A read without a version sees every finished write."""
    await world.make(CONFIG, "a", data={"k": "1"})
    await world.merge(CONFIG, "a", {"data": {"k": "2"}})

    assert (await world.get(CONFIG, "a"))["data"] == {"k": "2"}


@behaviour
async def get_of_a_missing_object(world: World) -> None:
    """Not found, with the resource and the name."""
    status = await refused(NotFoundError, world.get(CONFIG, "a"))

    assert status.details is not None
    assert (status.code, status.reason) == (404, "NotFound")
    assert (status.details.kind, status.details.name) == ("configmaps", "a")


@behaviour
async def get_not_older_than_a_version(world: World) -> None:
    """A version already reached may be asked for."""
    made = await world.make(CONFIG, "a")
    version = made["metadata"]["resourceVersion"]
    found = await world.cluster.get(CONFIG, world.key("a"), resource_version=version)

    assert found["metadata"]["uid"] == made["metadata"]["uid"]


@behaviour
async def get_with_a_bad_version(world: World) -> None:
    """A version is a number."""
    await world.make(CONFIG, "a")
    await refused(ClusterError, world.cluster.get(CONFIG, world.key("a"), resource_version="abc"))


@behaviour
async def list_in_order_of_names(world: World) -> None:
    """A list is sorted by name."""
    for name in ("b", "a", "c", "a-b", "a.b"):
        await world.make(CONFIG, name)

    assert await world.names(CONFIG) == sorted(["b", "a", "c", "a-b", "a.b"])


@behaviour
async def list_has_a_version(world: World) -> None:
    """A list is as new as the newest write."""
    made = await world.make(CONFIG, "a")

    assert int(await world.version()) >= int(made["metadata"]["resourceVersion"])


@behaviour
async def list_is_of_one_namespace(world: World) -> None:
    """A namespace is a wall."""
    await world.make(CONFIG, "a")
    listed = await world.cluster.list(CONFIG, world.selection())

    assert {item["metadata"]["namespace"] for item in listed.items} == {world.ns}


@behaviour
async def list_over_all_namespaces(world: World) -> None:
    """Without a namespace all are meant."""
    label = {"labels": {"only": world.ns}}
    await world.make(CONFIG, "a", metadata=label)
    listed = await world.cluster.list(CONFIG, Selection("", f"only={world.ns}"))

    assert [item["metadata"]["namespace"] for item in listed.items] == [world.ns]


@behaviour
async def empty_list(world: World) -> None:
    """Nothing is a list too."""
    listed = await world.cluster.list(LEASE, world.selection())

    assert listed.items == ()
    assert int(listed.resource_version) > 0


@behaviour
async def list_in_a_missing_namespace(world: World) -> None:
    """A namespace that is not there is empty."""
    assert (await world.cluster.list(CONFIG, Selection(f"{world.ns}-not"))).items == ()


@behaviour
async def pages_hold_what_was_asked_for(world: World) -> None:
    """limit and continue cut a list into pages that make up the whole."""
    await fill(world, 5)
    first = await world.cluster.list(CONFIG, world.selection(), limit=2)
    assert (len(first.items), first.remaining) == (2, 3)
    second = await world.cluster.list(
        CONFIG, world.selection(), limit=2, continue_token=first.continue_token
    )
    third = await world.cluster.list(
        CONFIG, world.selection(), limit=2, continue_token=second.continue_token
    )

    assert third.continue_token == ""
    names = [i["metadata"]["name"] for p in (first, second, third) for i in p.items]
    assert names == [f"c{n}" for n in range(5)]


@behaviour
async def pages_are_one_snapshot(world: World) -> None:
    """What happens between two pages is in neither."""
    await fill(world, 4)
    first = await world.cluster.list(CONFIG, world.selection(), limit=2)
    await world.make(CONFIG, "c2a")
    await world.cluster.delete(CONFIG, world.key("c3"))
    second = await world.cluster.list(
        CONFIG, world.selection(), limit=9, continue_token=first.continue_token
    )

    assert [i["metadata"]["name"] for i in second.items] == ["c2", "c3"]
    assert second.resource_version == first.resource_version


@behaviour
async def page_of_a_custom_kind(world: World) -> None:
    """Custom resources have pages too."""
    for name in ("a", "b", "c"):
        await world.make(WIDGET, name, spec={"size": 1})
    page = await world.cluster.list(WIDGET, world.selection(), limit=2)

    assert [i["metadata"]["name"] for i in page.items] == ["a", "b"]
    assert page.continue_token


@behaviour
async def selected_page_has_no_count(world: World) -> None:
    """With a selector nobody knows how many remain."""
    for n in range(3):
        await world.make(CONFIG, f"c{n}", metadata={"labels": {"a": "b"}})
    page = await world.cluster.list(CONFIG, world.selection("a=b"), limit=2)

    assert page.remaining is None
    assert page.continue_token


@behaviour
async def limit_beyond_the_end(world: World) -> None:
    """A page larger than the list is the list."""
    await fill(world, 2)
    page = await world.cluster.list(CONFIG, world.selection(), limit=2)

    assert (page.continue_token, page.remaining) == ("", None)


@behaviour
async def bad_continue_token(world: World) -> None:
    """A token is not for guessing."""
    doing = world.cluster.list(CONFIG, world.selection(), limit=2, continue_token="nonsense")
    await refused(BadRequestError, doing)


@behaviour
async def list_at_any_version(world: World) -> None:
    """Version 0 allows a stale answer, and pages do not apply."""
    await world.make(CONFIG, "a")
    listed = await world.cluster.list(CONFIG, world.selection(), resource_version="0", limit=1)

    assert listed.continue_token == ""


@behaviour
async def cluster_scoped_list(world: World) -> None:
    """Nodes are listed without a namespace."""
    name = f"n-{world.ns}"
    await world.make(NODE, name)
    listed = await world.cluster.list(NODE, Selection("", "", f"metadata.name={name}"))

    assert [item["metadata"]["name"] for item in listed.items] == [name]
    await world.cluster.delete(NODE, Key("", name))
