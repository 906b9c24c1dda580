"""Where first-fit placement puts pods."""

from __future__ import annotations

from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.node import Node
from swell.api.pod import Pod
from swell.placement.firstfit import place


def a_node(name: str, cpu: str = "2", **spec: object) -> Node:
    amounts = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    metadata = {"name": name, "labels": {"zone": name}}
    return convert({"metadata": metadata, "spec": spec, "status": {"allocatable": amounts}}, Node)


def a_pod(name: str, cpu: str = "1", node: str = "", phase: str = "Pending", **spec: object) -> Pod:
    container: Body = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    body: Body = {
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"schedulerName": "swell", "nodeName": node, "containers": [container], **spec},
        "status": {"phase": phase},
    }
    return convert(body, Pod)


def placed(nodes: list[Node], pods: list[Pod]) -> dict[str, str]:
    return {pod.metadata.name: node for pod, node in place(nodes, pods, "swell")}


def test_first_node_with_room_takes_a_pod() -> None:
    """By name; what is bound counts, what is over does not."""
    nodes = [a_node("b"), a_node("a")]
    pods = [
        a_pod("bound", node="a", phase="Running"),
        a_pod("over", node="a", phase="Succeeded"),
        *(a_pod(f"p{number}") for number in range(4)),
    ]

    assert placed(nodes, pods) == {"p0": "a", "p1": "b", "p2": "b"}


def test_large_pod_does_not_stop_small_ones() -> None:
    """There is no queue to hold up."""
    assert placed([a_node("a")], [a_pod("a-large", cpu="3"), a_pod("b-small")]) == {"b-small": "a"}


def test_nodes_that_refuse_a_pod_are_passed_over() -> None:
    """Taints, cordons, selectors and required affinity; tolerations open the door."""
    taint = {"key": "k", "effect": "NoSchedule"}
    nodes = [a_node("a", taints=[taint]), a_node("b", unschedulable=True), a_node("c"), a_node("d")]
    term = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pods = [
        a_pod("plain"),
        a_pod("picky", nodeSelector={"zone": "d"}),
        a_pod("averse", affinity={"nodeAffinity": required}),
        a_pod("tolerant", tolerations=[{"key": "k", "operator": "Exists"}]),
    ]

    assert placed(nodes, pods) == {"plain": "c", "picky": "d", "averse": "d", "tolerant": "a"}


def test_pods_of_others_are_left_alone() -> None:
    """Another scheduler's, gated ones, and those on their way out."""
    going = convert(
        {
            "metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"schedulerName": "swell"},
        },
        Pod,
    )
    gated = a_pod("gated", schedulingGates=[{"name": "g"}])

    assert placed([a_node("a")], [a_pod("o", schedulerName="other"), gated, going]) == {}
