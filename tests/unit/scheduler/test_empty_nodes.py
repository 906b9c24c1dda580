"""Whether a gang could ever start, in the words that the command line uses before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.cli.jobs.warnings import ClusterFacts, warnings_about
from swell.scheduler.model.snapshot import SchedulerSnapshot

GROUP = "ns/fit"


def a_node(name: str, labels: dict[str, str] | None = None, **offers: str) -> Node:
    body: Body = {
        "metadata": {"name": name, "labels": labels or {}},
        "status": {
            "allocatable": {"pods": "100", "cpu": "4", "memory": "8Gi", **offers},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return convert(body, Node)


NODES = (a_node("a"), a_node("b", {"zone": "west"}, cpu="2", memory="16Gi"))


def template(requests: Body, pod: Body) -> Body:
    container: Body = {"name": "c", "image": "x", "resources": {"requests": requests}}
    return {"containers": [container], "schedulerName": "swell", **pod}


def why_never(n_pods: int, requests: Body, pod: Body, nodes: tuple[Node, ...] = NODES) -> str:
    """Returns the answer of a snapshot with these nodes and a gang of one role."""
    snapshot = SchedulerSnapshot()
    for node in nodes:
        snapshot.put_node(node)
    spec = {"minMember": n_pods, "minTaskMember": {"trainer": n_pods}}
    meta = {"name": "fit", "namespace": "ns", "uid": "g"}
    snapshot.put_group(convert({"metadata": meta, "spec": spec}, PodGroup))
    for index in range(n_pods):
        body: Body = {
            "metadata": {
                "name": f"fit-trainer-{index}",
                "namespace": "ns",
                "uid": str(index),
                "annotations": {
                    "scheduling.k8s.io/group-name": "fit",
                    "volcano.sh/task-spec": "trainer",
                },
            },
            "spec": template(requests, pod),
            "status": {"phase": "Pending"},
        }
        snapshot.put_pod(convert(body, Pod))
    return snapshot.empty_nodes.why_never(snapshot.jobs[GROUP])


def warned(n_pods: int, requests: Body, pod: Body) -> str:
    """Returns what the command line says of the same job before it is sent."""
    role: Body = {"replicas": n_pods, "template": {"spec": template(requests, pod)}}
    job: Body = {
        "kind": "AITrainingJob",
        "metadata": {"name": "fit"},
        "spec": {"replicaSpecs": {"trainer": role}},
    }
    facts = ClusterFacts(NODES, {"default"}, set())
    return "; ".join(one.message for one in warnings_about(job, facts) if one.is_never)


@pytest.mark.parametrize(
    ("n_pods", "requests", "pod", "text"),
    [
        (1, {"cpu": "4"}, {}, ""),
        (3, {"cpu": "2"}, {}, ""),
        (1, {}, {}, ""),
        (1, {"cpu": "100"}, {}, "a pod of trainer asks for 100 cpu, and the largest node has 4"),
        (
            1,
            {"nvidia.com/gpu": "1"},
            {},
            "a pod of trainer asks for 1 nvidia.com/gpu, and no node has any",
        ),
        (
            1,
            {"cpu": "3", "memory": "12Gi"},
            {},
            "no node has all that a pod of trainer asks for: 3 cpu, 12Gi memory",
        ),
        (
            1,
            {"volcano.sh/vgpu-number": "1"},
            {},
            "trainer asks for parts of GPUs (volcano.sh/vgpu-*, volcano.sh/gpu-*), which are not "
            "handed out (DeviceSharingUnsupported): use MIG by DRA",
        ),
        (
            4,
            {"cpu": "2"},
            {},
            "trainer starts with 4 pods, and the cluster has room for 3 of 2 cpu each",
        ),
        (
            1,
            {"cpu": "1"},
            {"nodeSelector": {"zone": "east"}},
            "no node has the labels that trainer asks for (zone=east)",
        ),
        (
            1,
            {"cpu": "3"},
            {"nodeSelector": {"zone": "west"}},
            "a pod of trainer asks for 3 cpu, and the largest node has 2",
        ),
    ],
)
def test_scheduler_and_command_line_agree(
    n_pods: int, requests: Body, pod: Body, text: str
) -> None:
    """One sentence, whether it is said before the job is sent or of its group."""
    assert why_never(n_pods, requests, pod) == text
    assert warned(n_pods, requests, pod) == text


def test_nothing_is_said_without_nodes() -> None:
    """One may be added."""
    assert why_never(1, {"cpu": "100"}, {}, ()) == ""


def test_answer_changes_with_the_nodes() -> None:
    """A larger cluster lets it start after all."""
    snapshot = SchedulerSnapshot()
    snapshot.put_node(NODES[0])
    needs: dict[str, Any] = {"minMember": 1, "minResources": {"cpu": "6"}}
    meta = {"name": "fit", "namespace": "ns", "uid": "g"}
    snapshot.put_group(convert({"metadata": meta, "spec": needs}, PodGroup))
    job = snapshot.jobs[GROUP]
    never = "the cluster has 4 cpu in all; this job needs 6"
    assert snapshot.empty_nodes.why_never(job) == never
    snapshot.put_node(a_node("c", cpu="2"))
    assert snapshot.empty_nodes.why_never(job) == ""
    snapshot.remove_node("c")
    assert snapshot.empty_nodes.why_never(job) == never
