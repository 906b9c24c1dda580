"""The predicates, one at a time, with the reason of each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.config import DEFAULT
from swell.scheduler.cycle import run_cycle
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.plan import SchedulerObjects, plan_schedule

Body = dict[str, Any]


def node(name: str, labels: Body | None = None, notes: Body | None = None, **spec: object) -> Node:
    return codec.convert(
        {
            "metadata": {"name": name, "labels": labels or {}, "annotations": notes or {}},
            "spec": spec,
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "5"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Node,
    )


def pod(name: str, on: str = "", labels: Body | None = None, **spec: object) -> Pod:
    group = {"scheduling.k8s.io/group-name": name}
    container = {"resources": {"requests": {"cpu": "1"}}, "ports": spec.pop("ports", [])}
    containers = spec.pop("containers", [container])
    return codec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "labels": labels or {},
                "annotations": group,
            },
            "spec": {
                "schedulerName": "swell",
                "nodeName": on,
                "containers": containers,
                **spec,
            },
            "status": {"phase": "Running" if on else "Pending"},
        },
        Pod,
    )


def cluster(nodes: list[Node], *pods: Pod) -> SchedulerObjects:
    groups = [
        codec.convert({"metadata": p.metadata, "spec": {"minMember": 1, "queue": "q"}}, PodGroup)
        for p in pods
    ]
    queue = codec.convert({"metadata": {"name": "q"}}, Queue)
    return SchedulerObjects(nodes=nodes, pods=list(pods), groups=groups, queues=[queue])


def place_of(objects: SchedulerObjects, name: str = "new") -> str | None:
    return next((n for t, n in plan_schedule(objects).binds.items() if t.key == f"ns/{name}"), None)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*expressions: Body, fields: bool = False) -> Body:
    kind = "matchFields" if fields else "matchExpressions"
    terms = {"nodeSelectorTerms": [{kind: list(expressions)}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "b"),
        ({"nodeSelector": {"disk": "tape"}}, None),
        (node_affinity({"key": "disk", "operator": "In", "values": ["ssd"]}), "b"),
        (node_affinity({"key": "disk", "operator": "NotIn", "values": ["ssd"]}), "a"),
        (node_affinity({"key": "disk", "operator": "DoesNotExist"}), "a"),
        (node_affinity({"key": "size", "operator": "Gt", "values": ["5"]}), "b"),
        (node_affinity({"key": "size", "operator": "Lt", "values": ["5"]}), None),
        (
            node_affinity(
                {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}, fields=True
            ),
            "b",
        ),
    ],
)
def test_node_selector_and_affinity(spec: Body, place: str | None) -> None:
    """Only nodes whose labels and names satisfy all requirements of some term."""
    nodes = [node("a"), node("b", {"disk": "ssd", "size": "9"})]

    assert place_of(cluster(nodes, pod("new", **spec))) == place


@pytest.mark.parametrize(
    ("toleration", "place"),
    [
        ({}, None),
        ({"key": "gpu", "operator": "Exists"}, "a"),
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, "a"),
        ({"key": "gpu", "value": "no"}, None),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, None),
        ({"operator": "Exists"}, "a"),
    ],
)
def test_taints_keep_away_what_does_not_tolerate_them(toleration: Body, place: str | None) -> None:
    """Key, value and effect must match; an empty key with Exists tolerates everything."""
    tainted = node("a", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    spec: Body = {"tolerations": [toleration]} if toleration else {}

    assert place_of(cluster([tainted], pod("new", **spec))) == place


def test_cordoned_node_takes_only_what_tolerates_it() -> None:
    """Daemon-like pods may go to a cordoned node, others not."""
    nodes = [node("a", unschedulable=True)]
    brave = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}

    assert place_of(cluster(nodes, pod("new"))) is None
    assert place_of(cluster(nodes, pod("new", tolerations=[brave]))) == "a"


def test_host_port_is_taken_once_per_node() -> None:
    """With host network every container port is a port of the node."""
    busy = pod("old", on="a", hostNetwork=True, ports=[{"containerPort": 24446}])
    new = pod("new", hostNetwork=True, ports=[{"containerPort": 24446}])

    assert place_of(cluster([node("a")], busy, new)) is None
    assert place_of(cluster([node("a"), node("b")], busy, new)) == "b"


def test_host_port_is_free_where_ports_are_private() -> None:
    """On a node with private ports pods never conflict."""
    own = node("a", notes={"elasticdeeplearning.ai/private-ports": "true"})
    ports = [{"containerPort": 80, "hostPort": 80}]

    assert place_of(cluster([own], pod("old", on="a", ports=ports), pod("new", ports=ports))) == "a"


def test_host_port_differs_by_protocol_and_address() -> None:
    """The same number is another socket at another address or protocol."""
    old = pod("old", on="a", ports=[{"hostPort": 53, "hostIP": "10.0.0.1"}])

    def new(**port: object) -> Pod:
        return pod("new", ports=[{"hostPort": 53, **port}])

    assert place_of(cluster([node("a")], old, new(hostIP="10.0.0.2"))) == "a"
    assert place_of(cluster([node("a")], old, new(protocol="UDP"))) == "a"
    assert place_of(cluster([node("a")], old, new())) is None


def pod_affinity(kind: str, key: str = "zone", **labels: str) -> Body:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {kind: {REQUIRED: [term]}}}


ZONES = [node("a", {"zone": "1"}), node("b", {"zone": "1"}), node("c", {"zone": "2"})]


def test_affinity_goes_where_the_others_are() -> None:
    """A pod goes to the domain of a matching pod, and nowhere when there is none."""
    friend = pod("old", on="c", labels={"app": "db"})

    wanted = pod("new", **pod_affinity("podAffinity", app="db"))
    assert place_of(cluster(ZONES, friend, wanted)) == "c"
    assert place_of(cluster(ZONES, wanted)) is None


def test_affinity_lets_the_first_of_a_group_start() -> None:
    """The first pod of a group that attracts itself may go anywhere."""
    first = pod("new", labels={"app": "db"}, **pod_affinity("podAffinity", app="db"))

    assert place_of(cluster(ZONES, first)) is not None


def test_anti_affinity_works_both_ways() -> None:
    """A pod avoids those it refuses, and those that refuse it."""
    plain: Body = {"labels": {"app": "db"}}
    refusing = pod_affinity("podAntiAffinity", app="db")

    first = cluster(ZONES, pod("old", on="a", **plain), pod("new", **refusing))
    second = cluster(ZONES, pod("old", on="a", **refusing), pod("new", **plain))

    assert place_of(first) == "c"
    assert place_of(second) == "c"


def test_spread_keeps_domains_even() -> None:
    """No domain may be ahead of the emptiest by more than the skew."""
    spread: Body = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "db"}},
            }
        ]
    }
    there = [pod("old", on="a", labels={"app": "db"})]

    assert place_of(cluster(ZONES, *there, pod("new", labels={"app": "db"}, **spread))) == "c"


def test_spread_skips_nodes_without_the_domain() -> None:
    """A node outside every domain is no place for a pod that must be spread."""
    spread: Body = {
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }

    assert place_of(cluster([node("x")], pod("new", **spread))) is None


def test_refusals_are_counted_by_reason() -> None:
    """The conditions of group and pod count the nodes by reason."""
    nodes = [
        node("a", unschedulable=True),
        node("b", taints=[{"key": "x", "effect": "NoSchedule"}]),
        node("c", {"disk": "ssd"}),
        node("d"),
    ]
    full = [pod(f"old-{n}", on="c") for n in range(4)]
    objects = cluster(nodes, pod("new", nodeSelector={"disk": "ssd"}), *full)

    snapshot = objects.snapshot()
    plan = run_cycle(snapshot, DEFAULT)
    refusal = plan.groups["ns/new"].refusal
    (of_pod,) = plan.pod_refusals(snapshot.jobs["ns/new"]).values()

    assert refusal is not None
    assert refusal.reason is WaitReason.NOT_ENOUGH_RESOURCES
    assert "0/4 nodes fit" in refusal.message
    for part in ("1 cordoned", "1 short of cpu", "2 not matching the node selector"):
        assert part in refusal.message
        assert part in of_pod.message


def test_pod_of_an_incomplete_gang_gives_the_reason_of_its_group() -> None:
    """Pods that are missing altogether keep those that are there waiting."""
    objects = cluster([node("a")], pod("new"))
    objects.groups = [
        codec.convert(
            {
                "metadata": {"name": "new", "namespace": "ns"},
                "spec": {"minMember": 5, "queue": "q"},
                "status": {"phase": "Inqueue"},
            },
            PodGroup,
        )
    ]
    snapshot = objects.snapshot()

    plan = run_cycle(snapshot, DEFAULT)
    refusal = plan.groups["ns/new"].refusal

    assert refusal is not None
    assert refusal.reason is WaitReason.NOT_ENOUGH_TASKS
    reasons = {r.reason for r in plan.pod_refusals(snapshot.jobs["ns/new"]).values()}
    assert reasons == {WaitReason.NOT_ENOUGH_TASKS}


def test_broken_gpu_keeps_pods_with_gpus_away() -> None:
    """Other pods are welcome there, and all of them once the node is mended."""

    def on(status: str, resource: str) -> tuple[str | None, str]:
        objects = cluster([node("a")], pod("new"))
        condition = {"type": "AcceleratedHardwareReady", "status": status, "reason": "Xid79"}
        body = codec.to_body(objects.nodes[0])
        body["status"]["conditions"].append(condition)
        body["status"]["allocatable"]["nvidia.com/gpu"] = "8"
        objects.nodes = [codec.convert(body, Node)]
        asked = {"resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}
        spec = codec.to_body(objects.pods[0])
        spec["spec"]["containers"] = [asked]
        objects.pods = [codec.convert(spec, Pod)]
        refusal = plan_schedule(objects).groups["ns/new"].refusal
        return place_of(objects), refusal.message if refusal else ""

    broken = on("False", "nvidia.com/gpu")

    assert broken[0] is None
    assert "1 with a broken GPU: a AcceleratedHardwareReady=False (Xid79)" in broken[1]
    assert on("False", "cpu")[0] == "a"
    assert on("True", "nvidia.com/gpu")[0] == "a"


def test_pod_with_a_resource_claim_that_is_not_there_is_refused() -> None:
    """Bound without its devices it would hang on its node."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    objects = cluster([node("a")], pod("new", resourceClaims=claims))
    objects.are_whole = True
    refusal = plan_schedule(objects).groups["ns/new"].refusal

    assert place_of(objects) is None
    assert refusal is not None
    text = "1 refused because claim 'gpu' of its template has not been created yet"
    assert text in refusal.message


@pytest.mark.parametrize("name", ["volcano.sh/vgpu-number", "volcano.sh/gpu-memory"])
def test_pods_that_ask_for_a_part_of_a_gpu_are_refused(name: str) -> None:
    """Bound without the annotations that Volcano's plugin writes, such a pod fails on its node."""
    limits = {"limits": {name: "1", "cpu": "1"}}
    asking = pod("new", containers=[{"resources": limits}])
    refusal = plan_schedule(cluster([node("a")], asking)).groups["ns/new"].refusal

    assert place_of(cluster([node("a")], asking)) is None
    assert refusal is not None
    assert "DeviceSharingUnsupported" in refusal.message
    assert "use MIG by DRA" in refusal.message
