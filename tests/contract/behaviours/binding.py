"""Binding a pod to a node: once, and for good."""

from __future__ import annotations

from swell.runtime.errors import ConflictError, NotFoundError
from tests.contract.world import (
    BINDING,
    POD,
    World,
    a_pod,
    behaviour,
    refused,
    rejected,
)


@behaviour
async def sets_the_node(world: World) -> None:
    """A bound pod has its node and is scheduled."""
    pod = await world.make_pod("a", node=world.ns)
    conditions = {c["type"]: c["status"] for c in pod["status"]["conditions"]}

    assert pod["spec"]["nodeName"] == world.ns
    assert conditions["PodScheduled"] == "True"


@behaviour
async def answers_with_success(world: World) -> None:
    """The answer is a Status, not the pod."""
    await world.make_pod("a")
    answer = await world.bind("a", world.ns)

    assert answer["status"] == "Success"


@behaviour
async def only_once(world: World) -> None:
    """A pod does not move."""
    await world.make_pod("a", node=world.ns)
    status = await refused(ConflictError, world.bind("a", "n2"))

    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("pods/binding", "a")
    assert (await world.get(POD, "a"))["spec"]["nodeName"] == world.ns


@behaviour
async def missing_pod(world: World) -> None:
    """There is nothing to bind."""
    await refused(NotFoundError, world.bind("none", world.ns))


@behaviour
async def needs_a_target(world: World) -> None:
    """A binding names a node."""
    await world.make_pod("a")
    await rejected(world.bind("a", ""))

    assert "nodeName" not in (await world.get(POD, "a"))["spec"]


@behaviour
async def dying_pod_is_not_bound(world: World) -> None:
    """A pod on its way out gets no node."""
    await world.make_pod("a", metadata={"finalizers": ["example.com/x"]})
    await world.cluster.delete(POD, world.key("a"))
    await refused(ConflictError, world.bind("a", world.ns))
    await world.merge(POD, "a", {"metadata": {"finalizers": None}})


@behaviour
async def uid_precondition(world: World) -> None:
    """A binding meant for a pod spares its namesake."""
    pod = await world.make_pod("a")
    other = "11111111-2222-3333-4444-555555555555"
    await refused(ConflictError, world.bind("a", world.ns, uid=other))
    await world.bind("a", world.ns, uid=pod["metadata"]["uid"])

    assert (await world.get(POD, "a"))["spec"]["nodeName"] == world.ns


@behaviour
async def annotations_are_carried_over(world: World) -> None:
    """A scheduler may leave notes with its binding."""
    await world.make_pod("a")
    await world.bind("a", world.ns, annotations={"example.com/why": "room"})

    assert (await world.get(POD, "a"))["metadata"]["annotations"] == {"example.com/why": "room"}


@behaviour
async def gated_pod_is_not_bound(world: World) -> None:
    """A pod with scheduling gates is not to be scheduled yet."""
    await world.make_pod("a", **a_pod(schedulingGates=[{"name": "example.com/wait"}]))
    await refused(ConflictError, world.bind("a", world.ns))


@behaviour
async def target_is_a_node(world: World) -> None:
    """Pods are bound to nodes only."""
    await world.make_pod("a")
    target = {"kind": "Pod", "name": world.ns}
    binding = world.body(POD, "a", target=target) | BINDING
    await rejected(world.cluster.create(POD.sub("binding", dict), binding))

    assert "nodeName" not in (await world.get(POD, "a"))["spec"]


@behaviour
async def created_with_a_node(world: World) -> None:
    """A pod may be born on a node; then there is nothing to bind."""
    made = await world.make_pod("a", **a_pod(nodeName=world.ns))
    assert made["spec"]["nodeName"] == world.ns

    await refused(ConflictError, world.bind("a", world.ns))
