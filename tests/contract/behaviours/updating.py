"""Update: optimistic concurrency, what a PUT may change, what it cannot."""

from __future__ import annotations

from swell.runtime.errors import ConflictError, InvalidError, NotFoundError
from tests.contract.world import (
    BUDGET,
    CONFIG,
    LEASE,
    POD,
    SERVICE,
    WIDGET,
    World,
    a_pod,
    behaviour,
    causes,
    refused,
    rejected,
)


@behaviour
async def replaces_the_object(world: World) -> None:
    """What the new body does not say is gone."""
    made = await world.make(CONFIG, "a", data={"k": "1", "m": "1"})
    made["data"] = {"k": "2"}
    updated = await world.cluster.update(CONFIG, made)

    assert updated["data"] == {"k": "2"}
    assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@behaviour
async def refuses_a_stale_version(world: World) -> None:
    """Who decided on an old state must look again."""
    stale = await world.make(CONFIG, "a", data={"k": "1"})
    await world.merge(CONFIG, "a", {"data": {"k": "2"}})
    status = await refused(ConflictError, world.cluster.update(CONFIG, stale))

    assert (status.code, status.reason) == (409, "Conflict")
    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("configmaps", "a")
    assert (await world.get(CONFIG, "a"))["data"] == {"k": "2"}


@behaviour
async def needs_no_version_for_most_kinds(world: World) -> None:
    """A PUT without a version overwrites."""
    await world.make(CONFIG, "a", data={"k": "1"})
    updated = await world.cluster.update(CONFIG, world.body(CONFIG, "a", data={"k": "2"}))

    assert updated["data"] == {"k": "2"}


@behaviour
async def some_kinds_insist_on_a_version(world: World) -> None:
    """Leases, budgets and custom resources are never overwritten blindly."""
    await world.make(LEASE, "a")
    await world.make(BUDGET, "a", spec={"selector": {"matchLabels": {"a": "b"}}})
    await world.make(WIDGET, "a", spec={"size": 1})
    for resource in (LEASE, BUDGET, WIDGET):
        body = world.body(resource, "a", spec={"size": 1} if resource is WIDGET else {})
        status = await refused(InvalidError, world.cluster.update(resource, body))
        assert ("metadata.resourceVersion", "FieldValueInvalid") in causes(status), resource


@behaviour
async def same_content_is_no_write(world: World) -> None:
    """An update that changes nothing leaves the version as it is."""
    made = await world.make(CONFIG, "a", data={"k": "1"})
    updated = await world.cluster.update(CONFIG, made)

    assert updated["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@behaviour
async def refuses_another_uid(world: World) -> None:
    """An object of the same name is another object."""
    made = await world.make(CONFIG, "a")
    made["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    del made["metadata"]["resourceVersion"]
    await refused(ConflictError, world.cluster.update(CONFIG, made))


@behaviour
async def keeps_identity(world: World) -> None:
    """A PUT that leaves out UID and creation time does not lose them."""
    made = await world.make(CONFIG, "a")
    updated = await world.cluster.update(CONFIG, world.body(CONFIG, "a", data={"k": "2"}))

    for field in ("uid", "creationTimestamp"):
        assert updated["metadata"][field] == made["metadata"][field]


@behaviour
async def missing_object_is_not_found(world: World) -> None:
    """Most kinds are not created by PUT."""
    status = await refused(NotFoundError, world.cluster.update(CONFIG, world.body(CONFIG, "none")))

    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("configmaps", "none")


@behaviour
async def some_kinds_are_created(world: World) -> None:
    """PUT of a missing Lease or Service creates it."""
    lease = await world.cluster.update(LEASE, world.body(LEASE, "a"))
    service = await world.cluster.update(
        SERVICE, world.body(SERVICE, "a", spec={"ports": [{"port": 80}]})
    )

    assert lease["metadata"]["uid"]
    assert service["metadata"]["uid"]


@behaviour
async def refuses_a_version_that_is_none(world: World) -> None:
    """A version is a number."""
    made = await world.make(CONFIG, "a")
    made["metadata"]["resourceVersion"] = "abc"
    await rejected(world.cluster.update(CONFIG, made))


@behaviour
async def pod_containers_are_immutable(world: World) -> None:
    """Of a pod's spec only images, deadline and tolerations may change."""
    made = await world.make_pod("a")
    made["spec"]["containers"][0]["command"] = ["x"]
    status = await refused(InvalidError, world.cluster.update(POD, made))

    assert causes(status) == [("spec", "FieldValueForbidden")]


@behaviour
async def pod_image_may_change(world: World) -> None:
    """An image is one of the few things that may."""
    made = await world.make_pod("a")
    made["spec"]["containers"][0]["image"] = "images.example/app:2"
    updated = await world.cluster.update(POD, made)

    assert updated["spec"]["containers"][0]["image"] == "images.example/app:2"


@behaviour
async def immutable_config_stays(world: World) -> None:
    """An immutable ConfigMap's data is not changed, nor made mutable again."""
    made = await world.make(CONFIG, "a", data={"k": "1"}, immutable=True)
    for change in ({"data": {"k": "2"}}, {"immutable": False}):
        await refused(InvalidError, world.cluster.update(CONFIG, {**made, **change}))


@behaviour
async def node_name_is_not_set_by_update(world: World) -> None:
    """A pod gets its node by binding only."""
    made = await world.make_pod("a")
    made["spec"]["nodeName"] = world.ns
    await refused(InvalidError, world.cluster.update(POD, made))


@behaviour
async def labels_change(world: World) -> None:
    """Labels are the client's; a change of them is a new version."""
    made = await world.make_pod("a", **a_pod())
    made["metadata"]["labels"] = {"x": "y"}
    updated = await world.cluster.update(POD, made)

    assert updated["metadata"]["labels"] == {"x": "y"}
    assert updated["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
