"""Create: what the server fills in, and what it refuses."""

from __future__ import annotations

import re

from swell.api.times import parse_time
from swell.runtime.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
)
from tests.contract.world import (
    CONFIG,
    LEASE,
    NODE,
    SERVICE,
    World,
    behaviour,
    causes,
    refused,
    rejected,
)


@behaviour
async def fills_in_identity(world: World) -> None:
    """A new object gets a UID, a version and the time of its creation."""
    meta = (await world.make(CONFIG, "a"))["metadata"]

    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert int(meta["resourceVersion"]) > 0
    assert parse_time(meta["creationTimestamp"]) > 1_600_000_000


@behaviour
async def says_its_kind(world: World) -> None:
    """The answer names the object's kind and version."""
    made = await world.make(CONFIG, "a", data={"k": "v"})

    assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"k": "v"})


@behaviour
async def refuses_a_taken_name(world: World) -> None:
    """A name is used once at a time."""
    await world.make(CONFIG, "a")
    status = await refused(AlreadyExistsError, world.make(CONFIG, "a"))

    assert (status.code, status.reason) == (409, "AlreadyExists")
    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("configmaps", "a")


@behaviour
async def same_name_in_another_kind(world: World) -> None:
    """Kinds do not share names."""
    await world.make(CONFIG, "a")
    await world.make(LEASE, "a")

    assert await world.names(LEASE) == ["a"]


@behaviour
async def generates_names(world: World) -> None:
    """generateName is a prefix for five characters, different every time."""
    made = [await world.make(CONFIG, "", metadata={"generateName": "x-"}) for _ in range(5)]
    names = [one["metadata"]["name"] for one in made]

    assert all(re.fullmatch(r"x-[a-z0-9]{5}", name) for name in names)
    assert len(set(names)) == 5
    assert made[0]["metadata"]["generateName"] == "x-"


@behaviour
async def name_wins_over_generate_name(world: World) -> None:
    """With a name the prefix is only kept."""
    made = await world.make(CONFIG, "a", metadata={"generateName": "x-"})

    assert made["metadata"]["name"] == "a"


@behaviour
async def long_prefix_is_cut(world: World) -> None:
    """A generated name has at most 63 characters."""
    made = await world.make(CONFIG, "", metadata={"generateName": "x" * 100})

    assert len(made["metadata"]["name"]) == 63


@behaviour
async def refuses_no_name(world: World) -> None:
    """An object needs a name or a prefix."""
    status = await refused(InvalidError, world.make(CONFIG, ""))

    assert causes(status) == [("metadata.name", "FieldValueRequired")]


@behaviour
async def refuses_a_bad_name(world: World) -> None:
    """Names are lower-case, with digits, dashes and dots."""
    for name in ("A", "a_b", "-a", "a-", "a..b", "a" * 254):
        status = await refused(InvalidError, world.make(CONFIG, name))
        assert causes(status) == [("metadata.name", "FieldValueInvalid")], name


@behaviour
async def service_names_are_labels(world: World) -> None:
    """A service's name is a DNS label."""
    ports = {"ports": [{"port": 1}]}
    for name in ("a.b", "-a", "a" * 64):
        status = await refused(InvalidError, world.make(SERVICE, name, spec=ports))
        assert ("metadata.name", "FieldValueInvalid") in causes(status), name


@behaviour
async def refuses_a_version(world: World) -> None:
    """What does not exist yet has no version."""
    await rejected(world.make(CONFIG, "a", metadata={"resourceVersion": "5"}))

    assert await world.names(CONFIG) == []


@behaviour
async def ignores_a_given_uid(world: World) -> None:
    """Identity and times are the server's to give."""
    given = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    meta = (await world.make(CONFIG, "a", metadata=given))["metadata"]

    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")


@behaviour
async def ignores_a_given_deletion(world: World) -> None:
    """Nothing is born dying."""
    given = {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    meta = (await world.make(CONFIG, "a", metadata=given))["metadata"]

    assert "deletionTimestamp" not in meta
    assert "deletionGracePeriodSeconds" not in meta


@behaviour
async def refuses_a_missing_namespace(world: World) -> None:
    """Objects live in namespaces that exist."""
    body = world.body(CONFIG, "a", metadata={"namespace": f"{world.ns}-not"})
    status = await refused(NotFoundError, world.cluster.create(CONFIG, body))

    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("namespaces", f"{world.ns}-not")


@behaviour
async def refuses_bad_labels(world: World) -> None:
    """Label keys and values have a grammar."""
    for labels in ({"a b": "c"}, {"a": "b c"}, {"a": "x" * 64}, {"/a": "b"}):
        status = await refused(InvalidError, world.make(CONFIG, "a", metadata={"labels": labels}))
        assert causes(status) == [("metadata.labels", "FieldValueInvalid")], labels


@behaviour
async def refuses_bad_annotations(world: World) -> None:
    """Annotation keys have a grammar, values are free."""
    await world.make(CONFIG, "fine", metadata={"annotations": {"a": "anything: ✓\n"}})
    bad = {"annotations": {"a b": "c"}}
    status = await refused(InvalidError, world.make(CONFIG, "a", metadata=bad))

    assert causes(status) == [("metadata.annotations", "FieldValueInvalid")]


@behaviour
async def refuses_bad_owners(world: World) -> None:
    """An owner reference is complete, and at most one is the controller."""
    one = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    owners = [{**one, "uid": ""}]
    status = await refused(
        InvalidError, world.make(CONFIG, "a", metadata={"ownerReferences": owners})
    )
    assert ("metadata.ownerReferences.uid", "FieldValueInvalid") in causes(status)

    both = [{**one, "controller": True}, {**one, "uid": "v", "controller": True}]
    await refused(InvalidError, world.make(CONFIG, "a", metadata={"ownerReferences": both}))


@behaviour
async def cluster_scoped_has_no_namespace(world: World) -> None:
    """A node is in no namespace."""
    name = f"n-{world.ns}"
    made = await world.make(NODE, name)

    assert "namespace" not in made["metadata"]
    assert (await world.get(NODE, name))["metadata"]["name"] == name


@behaviour
async def versions_only_grow(world: World) -> None:
    """One counter for all objects of all kinds."""
    first = await world.make(CONFIG, "a")
    second = await world.make(LEASE, "a")
    third = await world.make(CONFIG, "b")
    versions = [int(one["metadata"]["resourceVersion"]) for one in (first, second, third)]

    assert versions == sorted(set(versions))
