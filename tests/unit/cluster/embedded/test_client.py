"""The cluster port in process: structs shared, bodies copied, watches that end and keep quiet."""

from __future__ import annotations

import asyncio

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Body, Key, Status
from swell.api.resource import Resource
from swell.cluster.embedded.client import InProcessCluster
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import (
    Cluster,
    Deletion,
    EventType,
    Malformed,
    Selection,
    WriteOptions,
    merge_patch,
)
from swell.runtime.errors import GoneError, NotFoundError
from tests.unit.cluster.embedded.world import World, a_world

KEY = Key("default", "a")


def a_pod(**metadata: object) -> Body:
    return {
        "metadata": {"name": "a", "namespace": "default", **metadata},
        "spec": {"containers": [{"name": "main"}]},
    }


def a_cluster(world: World) -> Cluster:
    return InProcessCluster(world.api, "tester")


def test_unchanged_object_is_decoded_once() -> None:
    """Two reads of one version give the same struct: nothing is copied."""
    cluster = a_cluster(a_world())

    async def act() -> None:
        await cluster.create(PODS, a_pod())
        assert await cluster.get(PODS, KEY) is (await cluster.list(PODS)).items[0]

    asyncio.run(act())


def test_bodies_are_neither_kept_nor_changed() -> None:
    """What a caller gave, or was given untyped, is the caller's."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        body = a_pod()
        await cluster.create(PODS, body)
        assert body == a_pod()
        body["spec"]["containers"].clear()
        given = await cluster.get(PODS.untyped(), KEY)
        given["spec"].clear()
        assert world.get("pods", "a").body["spec"]["containers"] == [{"name": "main"}]

    asyncio.run(act())


def test_object_that_does_not_decode_hides_no_other() -> None:
    """A malformed object is handed over as such, in lists and in watches."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        start = str(world.storage.version)
        await cluster.create(PODS, a_pod())
        bad = {**a_pod(name="bad"), "spec": {"containers": "none"}}
        await cluster.create(PODS.untyped(), bad)

        listed = await cluster.list(PODS)
        assert [pod.metadata.name for pod in listed.items] == ["a"]
        assert [found.key.name for found in listed.malformed] == ["bad"]
        async with cluster.watch(PODS, resource_version=start) as events:
            seen = [await anext(events) for _ in range(2)]
        assert [isinstance(event.object, Malformed) for event in seen] == [False, True]

    asyncio.run(act())


def test_subresources_answer_with_their_own_type() -> None:
    """Bindings and evictions are answered with a Status."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        await cluster.create(PODS, a_pod())
        binding = {"metadata": {"name": "a", "namespace": "default"}, "target": {"name": "n"}}
        bound = await cluster.create(PODS.sub("binding", Status), binding)
        assert bound.status == "Success"
        assert (await cluster.get(PODS, KEY)).spec.node_name == "n"
        await cluster.create(PODS.sub("eviction", Status), {"metadata": binding["metadata"]})
        with pytest.raises(NotFoundError):
            await cluster.create(PODS.sub("nothing", Status), binding)

    asyncio.run(act())


def test_delete_answers_with_what_lives_on() -> None:
    """The object while it waits, nothing when it is gone, nothing at all for a collection."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        world.pod("a", node="n", phase="Running")
        marked = await cluster.delete(PODS, KEY)
        assert marked is not None
        assert marked.metadata.deletion_grace_period_seconds == 30
        assert await cluster.delete(PODS, KEY, Deletion(grace_s=0)) is None
        world.pod("b")
        await cluster.delete_collection(PODS, Selection("default"))
        assert (await cluster.list(PODS)).items == ()

    asyncio.run(act())


def test_options_are_passed_on() -> None:
    """A dry run through the port leaves nothing."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        await cluster.create(PODS, a_pod(), WriteOptions(dry_run=True))
        with pytest.raises(NotFoundError):
            await cluster.get(PODS, KEY)
        with pytest.raises(NotFoundError):
            await cluster.get(Resource("none", "v1", "None", "nones", dict), KEY)

    asyncio.run(act())


def test_watch_ends_at_its_time_out_with_a_bookmark() -> None:
    """A watch sends a bookmark with its version, then ends."""
    world = a_world()
    world.api.clock = SystemClock()
    cluster = a_cluster(world)

    async def act() -> None:
        start = str(world.storage.version)
        async with cluster.watch(PODS, resource_version=start, timeout_s=0.01) as events:
            await cluster.create(PODS, a_pod())
            seen = [event async for event in events]
        assert [event.type for event in seen] == [EventType.ADDED, EventType.BOOKMARK]
        assert seen[1].resource_version == str(world.storage.version)

    asyncio.run(act())


def test_watch_wakes_for_a_write_and_is_cancelled_cleanly() -> None:
    """A waiting watcher gets the next change, and leaves nothing behind when it goes."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        start = str(world.storage.version)

        async def first() -> EventType:
            async with cluster.watch(PODS, resource_version=start) as events:
                return (await anext(events)).type

        waiting, cancelled = asyncio.create_task(first()), asyncio.create_task(first())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        await cluster.create(PODS, a_pod())
        assert await waiting is EventType.ADDED

    asyncio.run(act())


def test_watch_of_a_compacted_version_is_gone() -> None:
    """The caller lists again."""
    world = a_world()
    cluster = a_cluster(world)
    world.storage.compact(world.storage.version)

    async def act() -> None:
        with pytest.raises(GoneError):
            async with cluster.watch(PODS, resource_version="1") as events:
                await anext(events)

    asyncio.run(act())


def test_patch_through_the_port_is_conditional_on_its_version() -> None:
    """A version inside a merge patch makes it a precondition."""
    world = a_world()
    cluster = a_cluster(world)

    async def act() -> None:
        pod = await cluster.create(PODS, a_pod())
        version = pod.metadata.resource_version
        labels = {"metadata": {"labels": {"x": "y"}, "resourceVersion": version}}
        await cluster.patch(PODS, KEY, merge_patch(labels))
        labels["metadata"]["labels"] = {"x": "z"}
        with pytest.raises(Exception, match="modified"):
            await cluster.patch(PODS, KEY, merge_patch(labels))

    asyncio.run(act())
