"""The rows of nodes: what is wrong with them, who blames them, and how they are packed."""

from __future__ import annotations

import pytest

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body, Key
from swell.api.node_faults import FaultMark, FaultRecord, written_faults
from swell.page.packing import NodePacking, PackedPod
from swell.page.rows import node_row


def a_node(*conditions: tuple[str, str], **meta: object) -> Node:
    found = [{"type": type_, "status": status} for type_, status in conditions]
    body = {"metadata": {"name": "n", **meta}, "status": {"conditions": found}}
    return convert(body, Node)


@pytest.mark.parametrize(
    ("condition", "is_fault"),
    [
        (("Ready", "True"), False),
        (("Ready", "False"), True),
        (("Ready", "Unknown"), True),
        (("DiskPressure", "True"), True),
        (("DiskPressure", "False"), False),
        (("KernelDeadlock", "True"), True),
        (("AcceleratedHardwareReady", "True"), False),
        (("AcceleratedHardwareReady", "False"), True),
        (("GPUUnhealthy", "True"), True),
    ],
)
def test_a_condition_is_a_fault_by_its_own_polarity(
    condition: tuple[str, str], is_fault: bool
) -> None:
    faults = node_row(a_node(condition))["faults"]

    assert (len(faults) == 1) == is_fault, faults


def test_marks_of_jobs_are_shown_until_they_are_forgotten() -> None:
    """Those from before the node was trusted again are not."""
    record = FaultRecord(
        trusted="2026-01-01T00:00:00Z",
        marks=(
            FaultMark("lab/old", "2025-12-31T00:00:00Z", "PodFailed"),
            FaultMark("lab/fit", "2026-01-02T00:00:00Z", "GPUFault"),
        ),
    )
    node = a_node(annotations=written_faults(record))

    assert node_row(node)["marks"] == [
        {
            "job": "lab/fit",
            "reason": "GPUFault",
            "time": "2026-01-02T00:00:00Z",
            "until": "2026-01-02T03:00:00Z",
        }
    ]


def a_pod(node: str, phase: str = "Running", **requests: str) -> PackedPod:
    body: Body = {
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }
    return convert(body, PackedPod)


def test_packing_follows_pods_as_they_come_move_and_end() -> None:
    """Only nodes whose room has changed are named."""
    packing, key = NodePacking(), Key("lab", "p")

    assert packing.put(key, a_pod("", cpu="1")) == []
    assert packing.put(key, a_pod("a", cpu="1500m", memory="1Gi")) == ["a"]
    assert packing.put(key, a_pod("a", "Pending", cpu="1500m", memory="1Gi")) == []
    assert packing.used("a") == {"pods": 1, "cpuMilli": 1500, "memoryBytes": 1 << 30, "gpus": 0}
    assert packing.put(key, a_pod("b", **{"nvidia.com/gpu": "2"})) == ["a", "b"]
    assert packing.used("b")["gpus"] == 2
    assert packing.put(key, a_pod("b", "Succeeded", **{"nvidia.com/gpu": "2"})) == ["b"]
    assert packing.put(key, None) == []
    assert packing.uses == {}
