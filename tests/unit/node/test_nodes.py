"""What is kept true on a node, and what a machine's capacity comes to."""

from __future__ import annotations

import msgspec
import pytest

from swell.api.codec import convert
from swell.api.core import Taint
from swell.api.meta import Body
from swell.node.assembly import node_names
from swell.node.machine import CapacityError, CapacityRequest, HostMachine, capacity
from swell.node.nodes import NodeShape, OwnNode, RegistrationSnapshot, decide_node, node_body
from swell.runtime.plan import CreateObject, PatchObject

NOW = 1_800_000_000.0
SHAPE = NodeShape({"cpu": "4"}, "boot-1", labels={"a": "b"}, taints=(Taint(key="t", effect="E"),))
MACHINE = HostMachine("host", 8000, 16 << 30, 4)


def registered(**spec: object) -> OwnNode:
    body: Body = node_body("x-0", SHAPE, NOW)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    body["spec"] |= spec
    return convert(body, OwnNode)


def view(node: OwnNode | None, *, was_registered: bool = True) -> RegistrationSnapshot:
    return RegistrationSnapshot("x-0", node, SHAPE, was_registered)


def test_missing_node_is_created_once() -> None:
    """One that was deleted by somebody stays away."""
    (created,) = decide_node(view(None, was_registered=False), NOW).actions

    assert isinstance(created, CreateObject)
    assert created.body["status"]["capacity"] == {"cpu": "4"}
    assert created.body["metadata"]["labels"]["kubernetes.io/hostname"] == "x-0"
    assert decide_node(view(None), NOW).actions == ()


def test_node_as_it_should_be_is_left_alone() -> None:
    """No write without need."""
    assert decide_node(view(registered()), NOW + 1000).actions == ()


def test_node_of_an_earlier_start_is_renewed() -> None:
    """Taints of others stay, ours come back, and the status confirms it last."""
    node = registered(taints=[{"key": "theirs", "effect": "NoSchedule"}])
    info = msgspec.structs.replace(node.status.node_info, boot_id="boot-0")
    status = msgspec.structs.replace(node.status, node_info=info)
    first, second = decide_node(view(msgspec.structs.replace(node, status=status)), NOW).actions

    assert isinstance(first, PatchObject)
    assert isinstance(second, PatchObject)
    assert [t["key"] for t in first.patch.body["spec"]["taints"]] == ["theirs", "t"]  # type: ignore[index]
    assert second.resource.subresource == "status"


def test_taint_of_a_ready_node_is_removed_after_a_while() -> None:
    """A controller has its chance first."""
    node = registered(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    early, late = decide_node(view(node), NOW), decide_node(view(node), NOW + 3)

    assert (early.actions, early.wake_at) == ((), NOW + 2)
    (patch,) = late.actions
    assert isinstance(patch, PatchObject)
    assert patch.patch.body["spec"] == {"taints": None}  # type: ignore[index]


def test_node_found_unknown_says_that_it_is_ready() -> None:
    """An agent that was away is back."""
    node = registered()
    unsure = tuple(
        msgspec.structs.replace(condition, status="Unknown") for condition in node.status.conditions
    )
    status = msgspec.structs.replace(node.status, conditions=unsure)
    (patch,) = decide_node(view(msgspec.structs.replace(node, status=status)), NOW).actions

    assert isinstance(patch, PatchObject)
    assert {c["status"] for c in patch.patch.body["status"]["conditions"]} == {"True", "False"}  # type: ignore[index]


def test_machine_is_divided_among_its_nodes() -> None:
    """What was asked for is for each node; GPUs are whole."""
    assert capacity(MACHINE, CapacityRequest(), 2) == {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "500",
        "nvidia.com/gpu": "2",
    }
    asked = capacity(MACHINE, CapacityRequest(cpu="500m", memory="1Gi", gpu="0", pods=7), 3)
    assert asked == {"cpu": "500m", "memory": "1Gi", "pods": "7"}
    assert node_names("h", 2) == ("h-0", "h-1")


@pytest.mark.parametrize(
    "wanted", [CapacityRequest(cpu="x"), CapacityRequest(memory="-1"), CapacityRequest(gpu="0.5")]
)
def test_impossible_capacity_is_refused(wanted: CapacityRequest) -> None:
    """The error names the flag."""
    with pytest.raises(CapacityError, match="--"):
        capacity(MACHINE, wanted, 1)
