"""metadata.generation: grows with what is wanted, not with what is."""

from __future__ import annotations

from swell.runtime.cluster import Deletion
from tests.contract.world import (
    CONFIG,
    PLAIN_WIDGET,
    POD,
    REPLICA_SET,
    WIDGET,
    World,
    a_pod,
    behaviour,
)


@behaviour
async def begins_at_one(world: World) -> None:
    """The first spec is generation 1."""
    assert (await world.make(WIDGET, "a", spec={"size": 1}))["metadata"]["generation"] == 1
    assert (await world.make_pod("a"))["metadata"]["generation"] == 1


@behaviour
async def grows_with_the_spec(world: World) -> None:
    """A change of the spec is a new generation."""
    await world.make(WIDGET, "a", spec={"size": 1})
    patched = await world.merge(WIDGET, "a", {"spec": {"size": 2}})

    assert patched["metadata"]["generation"] == 2


@behaviour
async def not_with_the_status(world: World) -> None:
    """A status says what is."""
    await world.make(WIDGET, "a", spec={"size": 1})
    patched = await world.merge(WIDGET.status, "a", {"status": {"phase": "Running"}})

    assert patched["metadata"]["generation"] == 1


@behaviour
async def not_with_metadata(world: World) -> None:
    """Labels are no spec."""
    await world.make(WIDGET, "a", spec={"size": 1})
    patched = await world.merge(WIDGET, "a", {"metadata": {"labels": {"a": "b"}}})

    assert patched["metadata"]["generation"] == 1


@behaviour
async def any_field_without_status_subresource(world: World) -> None:
    """Without the subresource every field outside metadata counts."""
    await world.make(PLAIN_WIDGET, "a", spec={"size": 1})
    patched = await world.merge(PLAIN_WIDGET, "a", {"status": {"phase": "x"}})

    assert patched["metadata"]["generation"] == 2


@behaviour
async def grows_with_deletion(world: World) -> None:
    """Being deleted is wanted too."""
    await world.make(WIDGET, "a", spec={"size": 1}, metadata={"finalizers": ["example.com/x"]})
    left = await world.cluster.delete(WIDGET, world.key("a"))

    assert left is not None
    assert left["metadata"]["generation"] == 2
    await world.merge(WIDGET, "a", {"metadata": {"finalizers": None}})


@behaviour
async def pod_deletion_counts(world: World) -> None:
    """A pod's generation grows when it is told to go."""
    await world.make_pod("a", node=world.ns)
    before = (await world.get(POD, "a"))["metadata"]["generation"]
    left = await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=5))

    assert left is not None
    assert left["metadata"]["generation"] == before + 1


@behaviour
async def config_maps_have_none(world: World) -> None:
    """Kinds without a spec have no generation."""
    assert "generation" not in (await world.make(CONFIG, "a"))["metadata"]


@behaviour
async def replica_sets_count(world: World) -> None:
    """A new number of replicas is a new generation."""
    labels = {"app": world.ns}
    template = {"metadata": {"labels": labels}, **a_pod()}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await world.make(REPLICA_SET, "a", spec=spec)
    patched = await world.merge(REPLICA_SET, "a", {"spec": {"minReadySeconds": 5}})

    assert patched["metadata"]["generation"] == 2


@behaviour
async def given_generation_is_ignored(world: World) -> None:
    """Nobody but the server counts."""
    await world.make(WIDGET, "a", spec={"size": 1})
    patched = await world.merge(WIDGET, "a", {"metadata": {"generation": 99}})

    assert patched["metadata"]["generation"] == 1
