"""Patches of three kinds: merge, JSON, strategic merge."""

from __future__ import annotations

from swell.api.meta import Body
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.errors import (
    BadRequestError,
    ClusterError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from tests.contract.world import CONFIG, POD, WIDGET, World, behaviour, causes, refused


def json_patch(*operations: Body) -> Patch:
    return Patch(PatchKind.JSON, list(operations))


def strategic(body: Body) -> Patch:
    return Patch(PatchKind.STRATEGIC, body)


@behaviour
async def merge_adds_and_removes(world: World) -> None:
    """A merge patch sets what it names and removes what it nulls."""
    await world.make(CONFIG, "a", data={"k": "1", "m": "1"})
    patched = await world.merge(CONFIG, "a", {"data": {"k": "2", "m": None, "n": "3"}})

    assert patched["data"] == {"k": "2", "n": "3"}


@behaviour
async def merge_replaces_lists(world: World) -> None:
    """A merge patch knows nothing about lists but to replace them."""
    await world.make(WIDGET, "a", spec={"size": 1, "tags": ["x", "y"]})
    patched = await world.merge(WIDGET, "a", {"spec": {"tags": ["z"]}})

    assert patched["spec"]["tags"] == ["z"]


@behaviour
async def merge_is_conditional_with_a_version(world: World) -> None:
    """A version inside a patch makes it conditional."""
    made = await world.make(CONFIG, "a")
    version = made["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": version}, "data": {"k": "1"}}
    await world.merge(CONFIG, "a", change)

    await refused(ConflictError, world.merge(CONFIG, "a", {**change, "data": {"k": "2"}}))


@behaviour
async def merge_with_another_uid_is_invalid(world: World) -> None:
    """A patch cannot change the UID, and says so as a wrong value."""
    await world.make(CONFIG, "a")
    body = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}
    status = await refused(InvalidError, world.merge(CONFIG, "a", body))

    assert ("metadata.uid", "FieldValueInvalid") in causes(status)


@behaviour
async def merge_that_changes_nothing(world: World) -> None:
    """A patch without effect makes no new version."""
    made = await world.make(CONFIG, "a", data={"k": "1"})
    patched = await world.merge(CONFIG, "a", {"data": {"k": "1"}})

    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@behaviour
async def missing_object_is_not_found(world: World) -> None:
    """There is nothing to patch."""
    await refused(NotFoundError, world.merge(CONFIG, "none", {"data": {}}))


@behaviour
async def wrong_type_is_refused(world: World) -> None:
    """What a patch leads to must be a valid object."""
    await world.make(CONFIG, "a")
    await refused(ClusterError, world.merge(CONFIG, "a", {"data": 5}))
    await refused(ClusterError, world.merge(CONFIG, "a", {"data": {"k": 5}}))


@behaviour
async def json_operations_in_order(world: World) -> None:
    """The operations of a JSON patch are applied one after the other."""
    await world.make(CONFIG, "a", data={"k": "1"})
    patch = json_patch(
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "add", "path": "/data/m", "value": "2"},
        {"op": "move", "from": "/data/m", "path": "/data/n"},
        {"op": "copy", "from": "/data/n", "path": "/data/o"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "remove", "path": "/data/n"},
    )
    patched = await world.cluster.patch(CONFIG, world.key("a"), patch)

    assert patched["data"] == {"k": "3", "o": "2"}


@behaviour
async def json_test_that_fails(world: World) -> None:
    """A failed test refuses the whole patch."""
    await world.make(CONFIG, "a", data={"k": "1"})
    patch = json_patch(
        {"op": "add", "path": "/data/m", "value": "2"},
        {"op": "test", "path": "/data/k", "value": "x"},
    )
    await refused(InvalidError, world.cluster.patch(CONFIG, world.key("a"), patch))

    assert (await world.get(CONFIG, "a"))["data"] == {"k": "1"}


@behaviour
async def json_missing_path(world: World) -> None:
    """What is not there cannot be removed."""
    await world.make(CONFIG, "a", data={"k": "1"})
    patch = json_patch({"op": "remove", "path": "/data/none"})
    await refused(InvalidError, world.cluster.patch(CONFIG, world.key("a"), patch))


@behaviour
async def json_that_is_no_patch(world: World) -> None:
    """A JSON patch is a list of operations."""
    await world.make(CONFIG, "a")
    not_a_list = Patch(PatchKind.JSON, {"op": "add"})
    await refused(BadRequestError, world.cluster.patch(CONFIG, world.key("a"), not_a_list))


@behaviour
async def json_escapes_in_paths(world: World) -> None:
    """~1 is a slash inside a key."""
    await world.make(CONFIG, "a", metadata={"annotations": {"a/b": "1"}})
    patch = json_patch({"op": "replace", "path": "/metadata/annotations/a~1b", "value": "2"})
    patched = await world.cluster.patch(CONFIG, world.key("a"), patch)

    assert patched["metadata"]["annotations"] == {"a/b": "2"}


@behaviour
async def strategic_merges_lists_by_key(world: World) -> None:
    """Containers are known by their names."""
    await world.make_pod("a")
    change = {"spec": {"containers": [{"name": "main", "image": "images.example/app:2"}]}}
    patched = await world.cluster.patch(POD, world.key("a"), strategic(change))

    assert [c["image"] for c in patched["spec"]["containers"]] == ["images.example/app:2"]
    assert patched["spec"]["containers"][0]["terminationMessagePath"]


@behaviour
async def strategic_adds_a_toleration(world: World) -> None:
    """A running pod may be given another toleration."""
    await world.make_pod("a")
    change = {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}
    patched = await world.cluster.patch(POD, world.key("a"), strategic(change))

    assert "x" in [t["key"] for t in patched["spec"]["tolerations"]]


@behaviour
async def strategic_null_removes(world: World) -> None:
    """null removes, as in a merge patch."""
    await world.make(CONFIG, "a", data={"k": "1", "m": "2"})
    change = strategic({"data": {"k": None}})
    patched = await world.cluster.patch(CONFIG, world.key("a"), change)

    assert patched["data"] == {"m": "2"}


@behaviour
async def strategic_patch_directive(world: World) -> None:
    """$patch: replace takes the object as it is given."""
    await world.make(CONFIG, "a", data={"k": "1", "m": "2"})
    change = strategic({"data": {"$patch": "replace", "n": "3"}})
    patched = await world.cluster.patch(CONFIG, world.key("a"), change)

    assert patched["data"] == {"n": "3"}


@behaviour
async def strategic_finalizers_are_a_set(world: World) -> None:
    """Finalizers are added, not replaced, and removed by name."""
    await world.make(CONFIG, "a", metadata={"finalizers": ["example.com/a"]})
    more = strategic({"metadata": {"finalizers": ["example.com/b"]}})
    patched = await world.cluster.patch(CONFIG, world.key("a"), more)
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]

    names = ["example.com/a", "example.com/b"]
    less = strategic({"metadata": {"$deleteFromPrimitiveList/finalizers": names}})
    patched = await world.cluster.patch(CONFIG, world.key("a"), less)
    assert "finalizers" not in patched["metadata"]


@behaviour
async def strategic_is_not_for_custom_kinds(world: World) -> None:
    """A custom resource has no merge keys."""
    await world.make(WIDGET, "a", spec={"size": 1})
    change = strategic({"spec": {"size": 2}})
    status = await refused(ClusterError, world.cluster.patch(WIDGET, world.key("a"), change))

    assert (status.code, status.reason) == (415, "UnsupportedMediaType")


@behaviour
async def name_cannot_be_patched(world: World) -> None:
    """A patch cannot rename."""
    await world.make(CONFIG, "a")
    await refused(ClusterError, world.merge(CONFIG, "a", {"metadata": {"name": "b"}}))
