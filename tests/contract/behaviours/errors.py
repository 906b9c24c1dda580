"""Refusals: the shape of a Status."""

from __future__ import annotations

from swell.api.meta import Body
from swell.api.resource import Resource
from swell.runtime.errors import (
    BadRequestError,
    ClusterError,
    InvalidError,
    NotFoundError,
)
from tests.contract.world import (
    CONFIG,
    GROUP,
    POD,
    WIDGET,
    World,
    a_pod,
    behaviour,
    causes,
    refused,
)


@behaviour
async def status_is_complete(world: World) -> None:
    """A refusal says status, code, reason, message and details."""
    status = await refused(InvalidError, world.make(CONFIG, "B"))

    assert (status.status, status.code, status.reason) == ("Failure", 422, "Invalid")
    assert status.message
    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("ConfigMap", "B")


@behaviour
async def custom_kinds_name_their_group(world: World) -> None:
    """Details carry the group."""
    status = await refused(NotFoundError, world.get(WIDGET, "none"))

    assert status.details is not None
    assert (status.details.group, status.details.kind) == (GROUP, "widgets")


@behaviour
async def invalid_custom_object_names_its_kind(world: World) -> None:
    """An invalid object is named by its kind, a missing one by its resource."""
    status = await refused(InvalidError, world.make(WIDGET, "a", spec={"size": 99}))

    assert status.details is not None
    assert (status.details.group, status.details.kind) == (GROUP, "Widget")


@behaviour
async def unknown_resource(world: World) -> None:
    """What is not served is not found."""
    unknown: Resource[Body] = Resource("none.example.com", "v1", "Thing", "things", dict)
    status = await refused(NotFoundError, world.cluster.list(unknown))

    assert status.code == 404


@behaviour
async def unknown_version_of_a_group(world: World) -> None:
    """Nor is an unknown version."""
    unknown: Resource[Body] = Resource(GROUP, "v9", "Widget", "widgets", dict)
    await refused(NotFoundError, world.cluster.list(unknown))


@behaviour
async def body_of_another_kind(world: World) -> None:
    """A body is of the kind it is sent to."""
    body = world.body(CONFIG, "a") | {"kind": "Secret"}
    await refused(BadRequestError, world.cluster.create(CONFIG, body))


@behaviour
async def body_of_another_group(world: World) -> None:
    """And of its version."""
    body = world.body(CONFIG, "a") | {"apiVersion": "apps/v1"}
    await refused(BadRequestError, world.cluster.create(CONFIG, body))


@behaviour
async def custom_object_without_kind(world: World) -> None:
    """A custom resource says its kind itself."""
    body = world.body(WIDGET, "a", spec={"size": 1})
    del body["kind"]
    await refused(BadRequestError, world.cluster.create(WIDGET, body))


@behaviour
async def wrong_type_in_a_built_in(world: World) -> None:
    """A built-in's wrong type is a bad request."""
    await refused(BadRequestError, world.make(CONFIG, "a", data={"k": 5}))
    await refused(BadRequestError, world.make_pod("a", **a_pod(hostNetwork="yes")))


@behaviour
async def wrong_type_in_a_custom_kind(world: World) -> None:
    """A custom one's is an invalid value."""
    status = await refused(InvalidError, world.make(WIDGET, "a", spec={"size": "many"}))

    assert causes(status) == [("spec.size", "FieldValueTypeInvalid")]


@behaviour
async def every_error_is_reported(world: World) -> None:
    """All that is wrong is told at once."""
    spec = {"size": 99, "color": "blue", "code": "TOOLONG"}
    status = await refused(InvalidError, world.make(WIDGET, "a", spec=spec))

    assert status.details is not None
    fields = {cause.field for cause in status.details.causes}
    assert {"spec.size", "spec.color", "spec.code"} <= fields


@behaviour
async def object_of_no_shape(world: World) -> None:
    """A spec is an object."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": world.ns}, "spec": []}
    await refused(ClusterError, world.cluster.create(POD, body))
