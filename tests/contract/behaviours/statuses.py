"""The status subresource: status writes do not touch the spec, and the other way round."""

from __future__ import annotations

from swell.runtime.errors import ConflictError, InvalidError, NotFoundError
from tests.contract.world import (
    BUDGET,
    CONFIG,
    NODE,
    PLAIN_WIDGET,
    POD,
    WIDGET,
    World,
    behaviour,
    refused,
)


@behaviour
async def status_is_dropped_on_create(world: World) -> None:
    """A new custom resource has no status, whatever was sent."""
    made = await world.make(WIDGET, "a", spec={"size": 1}, status={"phase": "Done"})

    assert "status" not in made


@behaviour
async def new_pod_is_pending(world: World) -> None:
    """A new pod is pending, whatever was sent."""
    made = await world.make_pod("a", status={"phase": "Running"})

    assert made["status"]["phase"] == "Pending"


@behaviour
async def spec_write_leaves_status(world: World) -> None:
    """A write to the object does not reach its status."""
    await world.make(WIDGET, "a", spec={"size": 1})
    await world.merge(WIDGET.status, "a", {"status": {"phase": "Running"}})
    patched = await world.merge(WIDGET, "a", {"spec": {"size": 2}, "status": {"phase": "Lost"}})

    assert (patched["spec"]["size"], patched["status"]["phase"]) == (2, "Running")


@behaviour
async def status_write_leaves_spec(world: World) -> None:
    """A write to the status does not reach the spec."""
    await world.make(WIDGET, "a", spec={"size": 1})
    body = {"spec": {"size": 9}, "status": {"phase": "Running"}}
    patched = await world.merge(WIDGET.status, "a", body)

    assert (patched["spec"]["size"], patched["status"]["phase"]) == (1, "Running")


@behaviour
async def status_write_leaves_metadata_of_custom_kinds(world: World) -> None:
    """Labels of a custom resource are not changed through its status."""
    await world.make(WIDGET, "a", spec={"size": 1}, metadata={"labels": {"a": "b"}})
    body = {"metadata": {"labels": {"a": "c"}}, "status": {"phase": "Running"}}
    patched = await world.merge(WIDGET.status, "a", body)

    assert patched["metadata"]["labels"] == {"a": "b"}


@behaviour
async def status_write_changes_labels_of_pods(world: World) -> None:
    """A pod's labels do change with its status, as kubelets rely upon."""
    await world.make_pod("a")
    body = {"metadata": {"labels": {"a": "c"}}, "status": {"phase": "Running"}}
    patched = await world.merge(POD.status, "a", body)

    assert patched["metadata"]["labels"] == {"a": "c"}


@behaviour
async def status_update_by_put(world: World) -> None:
    """PUT works on the status too, under the same version rule."""
    made = await world.make(WIDGET, "a", spec={"size": 1})
    made["status"] = {"phase": "Running"}
    updated = await world.cluster.update(WIDGET.status, made)

    assert updated["status"] == {"phase": "Running"}
    assert (await world.get(WIDGET, "a"))["status"] == {"phase": "Running"}


@behaviour
async def status_put_alone_leaves_everything_else(world: World) -> None:
    """Whoever puts a status need not send the rest, and nothing of the rest is lost by that."""
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e.dev/f"]}
    made = await world.make(WIDGET, "a", spec={"size": 1}, metadata=metadata)
    own = {name: made["metadata"][name] for name in ("name", "namespace", "resourceVersion")}
    body = {"apiVersion": WIDGET.api_version, "kind": WIDGET.kind, "metadata": own}
    updated = await world.cluster.update(WIDGET.status, {**body, "status": {"phase": "Running"}})

    assert (updated["spec"], updated["status"]) == (made["spec"], {"phase": "Running"})
    assert {name: updated["metadata"][name] for name in metadata} == metadata
    await world.merge(WIDGET, "a", {"metadata": {"finalizers": None}})


@behaviour
async def stale_status_is_refused(world: World) -> None:
    """A status is computed from a version, and refused when that is old."""
    made = await world.make(WIDGET, "a", spec={"size": 1})
    await world.merge(WIDGET, "a", {"spec": {"size": 2}})
    made["status"] = {"phase": "Running"}
    await refused(ConflictError, world.cluster.update(WIDGET.status, made))


@behaviour
async def status_is_validated(world: World) -> None:
    """A status has a schema too."""
    await world.make(WIDGET, "a", spec={"size": 1})
    await refused(InvalidError, world.merge(WIDGET.status, "a", {"status": {"count": -1}}))
    await refused(InvalidError, world.merge(WIDGET.status, "a", {"status": {"phase": 5}}))


@behaviour
async def kind_without_status_subresource(world: World) -> None:
    """Without the subresource the status is part of the object."""
    made = await world.make(PLAIN_WIDGET, "a", status={"phase": "Done"})
    assert made["status"] == {"phase": "Done"}

    body = {"status": {"phase": "x"}}
    await refused(NotFoundError, world.merge(PLAIN_WIDGET.status, "a", body))


@behaviour
async def config_maps_have_no_status(world: World) -> None:
    """Not every kind has the subresource."""
    await world.make(CONFIG, "a")
    await refused(NotFoundError, world.merge(CONFIG.status, "a", {"status": {}}))


@behaviour
async def node_keeps_its_first_status(world: World) -> None:
    """A node is created with its capacity."""
    name = f"n-{world.ns}"
    made = await world.make(NODE, name, status={"capacity": {"cpu": "4"}})

    assert made["status"]["capacity"] == {"cpu": "4"}


@behaviour
async def status_of_a_missing_object(world: World) -> None:
    """There is nothing to report on."""
    await refused(NotFoundError, world.merge(POD.status, "none", {"status": {}}))


@behaviour
async def budget_status(world: World) -> None:
    """A budget's status is its controller's."""
    await world.make(
        BUDGET, "a", spec={"minAvailable": 1, "selector": {}}, status={"disruptionsAllowed": 5}
    )
    assert (await world.get(BUDGET, "a"))["status"]["disruptionsAllowed"] == 0
