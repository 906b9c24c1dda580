"""The scale subresource."""

from __future__ import annotations

from swell.api.meta import Body
from swell.api.resource import Resource
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ConflictError, InvalidError, NotFoundError
from tests.contract.world import (
    CONFIG,
    REPLICA_SET,
    WIDGET,
    World,
    a_pod,
    behaviour,
    eventually,
    refused,
)

SCALE: Resource[Body] = REPLICA_SET.sub("scale", dict)


async def a_set(world: World, replicas: int = 0) -> None:
    labels = {"app": world.ns}
    template = {"metadata": {"labels": labels}, **a_pod()}
    selector = {"matchLabels": labels}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    await world.make(REPLICA_SET, "a", spec=spec)


@behaviour
async def shows_the_number(world: World) -> None:
    """A Scale shows replicas and the selector as text."""
    await a_set(world)
    scale = await world.get(SCALE, "a")

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["status"]["selector"] == f"app={world.ns}"


@behaviour
async def changes_the_number(world: World) -> None:
    """A new number reaches the object's spec."""
    await a_set(world)

    async def is_seen() -> bool:
        """Its controller writes a first status, and then nothing more."""
        return "observedGeneration" in (await world.get(REPLICA_SET, "a"))["status"]

    await eventually(is_seen)
    scale = await world.get(SCALE, "a")
    scale["spec"] = {"replicas": 2}
    await world.cluster.update(SCALE, scale)

    assert (await world.get(REPLICA_SET, "a"))["spec"]["replicas"] == 2


@behaviour
async def by_patch(world: World) -> None:
    """A patch will do too."""
    await a_set(world)
    patch = merge_patch({"spec": {"replicas": 1}})
    scale = await world.cluster.patch(SCALE, world.key("a"), patch)

    assert scale["spec"]["replicas"] == 1


@behaviour
async def refuses_negative(world: World) -> None:
    """There are no negative replicas."""
    await a_set(world)
    patch = merge_patch({"spec": {"replicas": -1}})
    await refused(InvalidError, world.cluster.patch(SCALE, world.key("a"), patch))


@behaviour
async def stale_scale(world: World) -> None:
    """Versions count here too."""
    await a_set(world)
    scale = await world.get(SCALE, "a")
    await world.merge(REPLICA_SET, "a", {"metadata": {"labels": {"x": "y"}}})
    scale["spec"] = {"replicas": 2}
    await refused(ConflictError, world.cluster.update(SCALE, scale))


@behaviour
async def of_a_custom_kind(world: World) -> None:
    """A custom kind says where its number is."""
    await world.make(WIDGET, "a", spec={"size": 1, "replicas": 3})
    resource = WIDGET.sub("scale", dict)
    assert (await world.get(resource, "a"))["spec"]["replicas"] == 3

    patch = merge_patch({"spec": {"replicas": 5}})
    await world.cluster.patch(resource, world.key("a"), patch)
    assert (await world.get(WIDGET, "a"))["spec"]["replicas"] == 5


@behaviour
async def not_of_every_kind(world: World) -> None:
    """Most kinds have no scale."""
    await world.make(CONFIG, "a")
    await refused(NotFoundError, world.get(CONFIG.sub("scale", dict), "a"))
