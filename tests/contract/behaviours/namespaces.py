"""Namespaces: their life, and that they take everything with them."""

from __future__ import annotations

from swell.api.meta import Key
from swell.runtime.cluster import Deletion
from swell.runtime.errors import ConflictError, ForbiddenError, InvalidError
from tests.contract.world import (
    CONFIG,
    NAMESPACE,
    World,
    behaviour,
    causes,
    eventually,
    refused,
)


async def extra(world: World) -> World:
    """Another namespace, to be destroyed."""
    name = f"{world.ns}-x"
    await world.make(NAMESPACE, name)
    return World(world.cluster, name)


@behaviour
async def begins_active(world: World) -> None:
    """A new namespace is active, held by its finalizer, and labelled with its name."""
    found = await world.get(NAMESPACE, world.ns)

    assert found["status"]["phase"] == "Active"
    assert found["spec"]["finalizers"] == ["kubernetes"]
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == world.ns


@behaviour
async def takes_its_objects_along(world: World) -> None:
    """A deleted namespace is terminating until it is empty, then gone."""
    other = await extra(world)
    await other.make(CONFIG, "a")
    left = await world.cluster.delete(NAMESPACE, Key("", other.ns))
    assert left is not None
    assert left["status"]["phase"] == "Terminating"

    async def is_gone() -> bool:
        listed = await world.cluster.list(NAMESPACE)
        return other.ns not in {item["metadata"]["name"] for item in listed.items}

    await eventually(is_gone)
    assert await other.names(CONFIG) == []


@behaviour
async def waits_for_finalizers_inside(world: World) -> None:
    """What is held inside holds the namespace; nothing new comes in."""
    other = await extra(world)
    await other.make(CONFIG, "a", metadata={"finalizers": ["example.com/x"]})
    await world.cluster.delete(NAMESPACE, Key("", other.ns))

    async def is_reported() -> bool:
        return "deletionTimestamp" in (await other.get(CONFIG, "a"))["metadata"]

    await eventually(is_reported)
    status = await refused(ForbiddenError, other.make(CONFIG, "b"))
    assert ("metadata.namespace", "NamespaceTerminating") in causes(status)
    await other.merge(CONFIG, "a", {"metadata": {"finalizers": None}})


@behaviour
async def name_is_a_label(world: World) -> None:
    """A namespace's name has no dots."""
    status = await refused(InvalidError, world.make(NAMESPACE, "a.b"))

    assert ("metadata.name", "FieldValueInvalid") in causes(status)


@behaviour
async def system_ones_are_there(world: World) -> None:
    """A cluster begins with its system's namespaces."""
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        assert (await world.get(NAMESPACE, name))["status"]["phase"] == "Active"


@behaviour
async def label_with_the_name_stays(world: World) -> None:
    """The label with a namespace's name cannot be changed."""
    label = "kubernetes.io/metadata.name"
    patched = await world.merge(NAMESPACE, world.ns, {"metadata": {"labels": {label: None}}})

    assert patched["metadata"]["labels"][label] == world.ns


@behaviour
async def delete_with_a_wrong_version(world: World) -> None:
    """Preconditions hold for namespaces too."""
    doing = world.cluster.delete(NAMESPACE, Key("", world.ns), Deletion(resource_version="1"))
    await refused(ConflictError, doing)
