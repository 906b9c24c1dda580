"""Watch: every change once, in order, from any version that is kept."""

from __future__ import annotations

import asyncio

from swell.api.meta import Body
from swell.runtime.cluster import Deletion, EventType
from swell.runtime.errors import BadRequestError, ClusterError
from tests.contract.world import CONFIG, POD, WIDGET, World, behaviour, refused, rejected


def shown(events: list[tuple[str, Body]]) -> list[tuple[str, str]]:
    return [(kind, body["metadata"]["name"]) for kind, body in events]


@behaviour
async def every_change_in_order(world: World) -> None:
    """Added, modified, deleted: once each, in the order of their versions."""
    since = await world.version()
    await world.make(CONFIG, "a")
    await world.merge(CONFIG, "a", {"data": {"k": "1"}})
    await world.make(CONFIG, "b")
    await world.cluster.delete(CONFIG, world.key("a"))
    events = await world.events(CONFIG, since, 4)

    assert shown(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in events]
    assert versions == sorted(set(versions))


@behaviour
async def live_changes(world: World) -> None:
    """What happens after the watch began is seen as it happens."""
    since = await world.version()
    chosen = world.selection()
    watching = world.cluster.watch(CONFIG, chosen, resource_version=since, timeout_s=30)
    async with asyncio.timeout(20), watching as events:
        for name in ("a", "b", "c"):
            await world.make(CONFIG, name)
            async for event in events:
                if event.type is not EventType.BOOKMARK:
                    assert isinstance(event.object, dict)
                    assert event.object["metadata"]["name"] == name
                    break


@behaviour
async def resumes_after_a_version(world: World) -> None:
    """A watch from an event's version repeats nothing and skips nothing."""
    since = await world.version()
    for n in range(6):
        await world.make(CONFIG, f"c{n}")
    first = await world.events(CONFIG, since, 3)
    last_seen = first[-1][1]["metadata"]["resourceVersion"]
    second = await world.events(CONFIG, last_seen, 3)

    assert shown(first + second) == [("ADDED", f"c{n}") for n in range(6)]


@behaviour
async def deleted_shows_the_last_state(world: World) -> None:
    """The deleted object comes as it was, under a newer version."""
    made = await world.make(CONFIG, "a", data={"k": "1"})
    version = made["metadata"]["resourceVersion"]
    await world.cluster.delete(CONFIG, world.key("a"))
    [(kind, body)] = await world.events(CONFIG, version, 1)

    assert (kind, body["data"]) == ("DELETED", {"k": "1"})
    assert int(body["metadata"]["resourceVersion"]) > int(version)


@behaviour
async def other_namespaces_are_not_seen(world: World) -> None:
    """A watch is on one namespace."""
    since = await world.version()
    elsewhere = world.body(CONFIG, f"x-{world.ns}", metadata={"namespace": "default"})
    await world.cluster.create(CONFIG, elsewhere)
    await world.make(CONFIG, "a")

    assert shown(await world.events(CONFIG, since, 1)) == [("ADDED", "a")]


@behaviour
async def other_kinds_are_not_seen(world: World) -> None:
    """A watch is on one kind."""
    since = await world.version()
    await world.make_pod("p")
    await world.make(CONFIG, "a")

    assert shown(await world.events(CONFIG, since, 1)) == [("ADDED", "a")]


@behaviour
async def entering_a_selection_is_added(world: World) -> None:
    """An object that begins to match is new to the watcher."""
    await world.make(CONFIG, "a")
    since = await world.version()
    await world.merge(CONFIG, "a", {"metadata": {"labels": {"app": "x"}}})

    assert shown(await world.events(CONFIG, since, 1, "app=x")) == [("ADDED", "a")]


@behaviour
async def leaving_a_selection_is_deleted(world: World) -> None:
    """An object that ceases to match is gone for the watcher, with its old labels."""
    made = await world.make(CONFIG, "a", metadata={"labels": {"app": "x"}})
    since = made["metadata"]["resourceVersion"]
    left = await world.merge(CONFIG, "a", {"metadata": {"labels": {"app": "y"}}})
    [(kind, body)] = await world.events(CONFIG, since, 1, "app=x")

    assert (kind, body["metadata"]["labels"]) == ("DELETED", {"app": "x"})
    assert body["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


@behaviour
async def field_selection_of_a_node(world: World) -> None:
    """A node's agent sees a pod from its binding on."""
    since = await world.version(POD)
    await world.make_pod("a", node=world.ns)
    await world.make_pod("b", node="n2")
    await world.make_pod("c", node=world.ns)
    events = await world.events(POD, since, 2, fields=f"spec.nodeName={world.ns}")

    assert shown(events) == [("ADDED", "a"), ("ADDED", "c")]


@behaviour
async def first_events_without_a_version(world: World) -> None:
    """A watch from version 0 begins with what is there."""
    await world.make(CONFIG, "a")
    await world.make(CONFIG, "b")
    events = await world.events(CONFIG, "0", 2)

    assert sorted(shown(events)) == [("ADDED", "a"), ("ADDED", "b")]


@behaviour
async def refused_writes_are_not_seen(world: World) -> None:
    """Only what happened is an event."""
    since = await world.version()
    await world.make(CONFIG, "a")
    for name in ("a", "B"):
        await refused(ClusterError, world.make(CONFIG, name))
    same = await world.get(CONFIG, "a")
    await world.cluster.update(CONFIG, same)
    await world.make(CONFIG, "z")

    assert shown(await world.events(CONFIG, since, 2)) == [("ADDED", "a"), ("ADDED", "z")]


@behaviour
async def ends_at_its_time(world: World) -> None:
    """A watch with a time-out ends by itself."""
    since = await world.version()
    watching = world.cluster.watch(CONFIG, world.selection(), resource_version=since, timeout_s=1)
    async with asyncio.timeout(10), watching as events:
        assert [e async for e in events if e.type is not EventType.BOOKMARK] == []


@behaviour
async def bad_version_is_refused(world: World) -> None:
    """A version is a number."""
    await rejected(world.events(CONFIG, "abc", 1))


@behaviour
async def bad_selectors_are_refused(world: World) -> None:
    """A selector that is none is refused before anything is sent."""
    since = await world.version()
    await refused(BadRequestError, world.events(CONFIG, since, 1, "a in"))
    await refused(BadRequestError, world.events(CONFIG, since, 1, fields="data.k=1"))


@behaviour
async def pod_deletion_in_two_steps(world: World) -> None:
    """An immediate delete of a bound pod marks it, then removes it."""
    await world.make_pod("a", node=world.ns)
    since = await world.version(POD)
    await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=0))
    events = await world.events(POD, since, 2)

    assert [kind for kind, _ in events] == ["MODIFIED", "DELETED"]
    assert events[0][1]["metadata"]["deletionGracePeriodSeconds"] == 0


@behaviour
async def custom_kinds_are_watched(world: World) -> None:
    """Custom resources are watched like any other."""
    since = await world.version(WIDGET)
    await world.make(WIDGET, "a", spec={"size": 1})
    await world.merge(WIDGET, "a", {"spec": {"size": 2}})
    events = await world.events(WIDGET, since, 2)

    assert [(k, b["spec"]["size"]) for k, b in events] == [("ADDED", 1), ("MODIFIED", 2)]


@behaviour
async def two_watchers_see_the_same(world: World) -> None:
    """Watchers do not take events from each other."""
    since = await world.version()
    for n in range(4):
        await world.make(CONFIG, f"c{n}")
    first, second = await asyncio.gather(
        world.events(CONFIG, since, 4), world.events(CONFIG, since, 4)
    )

    assert shown(first) == shown(second)
