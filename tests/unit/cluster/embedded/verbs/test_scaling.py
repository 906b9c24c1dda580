"""The scale subresource shows and sets the replicas of the object it belongs to."""

from __future__ import annotations

import pytest

from swell.api.meta import Body, Key
from swell.runtime.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world

KEY = Key(NAMESPACE, "a")


def with_a_set() -> World:
    world = a_world()
    selector = {"matchLabels": {"app": "a"}}
    world.create("replicasets", "a", spec={"replicas": 2, "selector": selector})
    return world


def scale(world: World) -> Body:
    return world.api.get_scale(world.kind("replicasets"), KEY).body


def test_scale_shows_replicas_and_selector() -> None:
    """The parent's numbers under the common shape, with its identity and version."""
    world = with_a_set()

    shown = scale(world)

    assert (shown["kind"], shown["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert shown["spec"] == {"replicas": 2}
    assert shown["status"] == {"replicas": 0, "selector": "app=a"}
    assert shown["metadata"]["uid"] == world.get("replicasets", "a").uid


def test_scale_writes_the_parent() -> None:
    """A patch and an update change the spec, and the generation grows."""
    world = with_a_set()

    world.patch("replicasets", "a", {"spec": {"replicas": 3}}, subresource="scale")
    body = scale(world)
    body["spec"]["replicas"] = 4
    world.update("replicasets", body, subresource="scale")
    parent = world.get("replicasets", "a").body

    assert parent["spec"]["replicas"] == 4
    assert parent["metadata"]["generation"] == 3


def test_scale_refuses_what_makes_no_sense() -> None:
    """A negative number, another kind, a stale version, a missing parent."""
    world = with_a_set()
    stale = scale(world)
    world.patch("replicasets", "a", {"metadata": {"labels": {"x": "y"}}})

    with pytest.raises(InvalidError):
        world.patch("replicasets", "a", {"spec": {"replicas": -1}}, subresource="scale")
    with pytest.raises(BadRequestError):
        world.update("replicasets", {**stale, "kind": "ReplicaSet"}, subresource="scale")
    with pytest.raises(ConflictError):
        world.update("replicasets", {**stale, "spec": {"replicas": 5}}, subresource="scale")
    with pytest.raises(InvalidError, match="patch"):
        world.patch("replicasets", "a", {"spec": {"replicas": "many"}}, subresource="scale")
    with pytest.raises(ConflictError):
        world.patch("replicasets", "a", {"metadata": {"uid": "another"}}, subresource="scale")
    with pytest.raises(BadRequestError):
        world.patch("replicasets", "a", {"metadata": {"name": "b"}}, subresource="scale")
    with pytest.raises(NotFoundError):
        world.patch("replicasets", "b", {"spec": {"replicas": 1}}, subresource="scale")
