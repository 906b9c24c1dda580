"""Volumes: which nodes a pod with claims may use, which volumes it gets, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from swell.scheduler.config import DEFAULT, Arguments
from swell.scheduler.cycle import run_cycle
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from tests.storage_objects import (
    HOST,
    MADE,
    PROVISIONER,
    a_bound_claim,
    a_claim,
    a_class,
    a_volume,
    mounts,
)

Body = dict[str, Any]
LISTS: dict[str, tuple[type[Any], str]] = {
    "PersistentVolumeClaim": (PersistentVolumeClaim, "claims"),
    "PersistentVolume": (PersistentVolume, "volumes"),
    "StorageClass": (StorageClass, "storage_classes"),
    "CSINode": (CsiNode, "csi_nodes"),
    "CSIDriver": (CsiDriver, "csi_drivers"),
    "CSIStorageCapacity": (CsiStorageCapacity, "storage_capacities"),
    "VolumeAttachment": (VolumeAttachment, "volume_attachments"),
}


def node(name: str, cpu: str = "4", **labels: str) -> Node:
    return codec.convert(
        {
            "metadata": {"name": name, "labels": {HOST: name, **labels}},
            "status": {
                "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Node,
    )


def pod(name: str, *claims: str, group: str = "gang", on: str = "", **spec: object) -> Pod:
    return codec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "annotations": {"scheduling.k8s.io/group-name": group},
            },
            "spec": {
                "schedulerName": "swell",
                "nodeName": on,
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "volumes": mounts(*claims),
                **spec,
            },
            "status": {"phase": "Running" if on else "Pending"},
        },
        Pod,
    )


def a_cluster(
    nodes: list[Node], pods: list[Pod], *storage: Body, minimum: int | None = None
) -> SchedulerObjects:
    size = sum(not p.spec.node_name for p in pods) if minimum is None else minimum
    group = {
        "metadata": {"name": "gang", "namespace": "ns"},
        "spec": {"minMember": size, "queue": "q"},
        "status": {"phase": "Inqueue"},
    }
    objects = SchedulerObjects(
        nodes=nodes,
        pods=pods,
        groups=[codec.convert(group, PodGroup)],
        queues=[codec.convert({"metadata": {"name": "q"}}, Queue)],
        are_whole=True,
    )
    for body in storage:
        struct, place = LISTS[body["kind"]]
        getattr(objects, place).append(codec.convert(body, struct))
    return objects


def outcome(objects: SchedulerObjects) -> tuple[Body, Body, str]:
    """The binds, the volumes and the message of the gang."""
    body: Any = answer(plan_schedule(objects))
    return body["binds"], body.get("volumes", {}), body["podGroups"]["ns/gang"]["message"]


def two() -> list[Node]:
    return [node("a"), node("b")]


# --- static volumes


def test_gang_gets_the_volumes_of_its_nodes() -> None:
    """Eight pods, four volumes a node: each pod is where its volume is."""
    pods = [pod(f"p-{i}", f"data-{i}") for i in range(8)]
    claims = [a_claim(f"data-{i}") for i in range(8)]
    volumes = [a_volume(f"pv-{n}-{i}", n) for n in "ab" for i in range(4)]

    binds, chosen, _ = outcome(a_cluster(two(), pods, a_class(), *claims, *volumes))

    assert len(binds) == 8
    used = [chosen[f"ns/data-{i}"]["pv"] for i in range(8)]
    assert len(set(used)) == 8
    for i, volume in enumerate(used):
        assert volume.startswith(f"pv-{binds[f'ns/p-{i}']}-")


def test_gang_with_one_volume_too_few_is_refused_with_numbers() -> None:
    """Seven volumes for eight pods: nothing is bound, and the message names the claim."""
    pods = [pod(f"p-{i}", f"data-{i}") for i in range(8)]
    claims = [a_claim(f"data-{i}") for i in range(8)]
    volumes = [a_volume(f"pv-{i}", "ab"[i % 2]) for i in range(7)]
    objects = a_cluster(two(), pods, a_class(), *claims, *volumes)
    snapshot = objects.snapshot()

    plan = run_cycle(snapshot, DEFAULT)
    message = plan.groups["ns/gang"].refusal.message  # type: ignore[union-attr]

    assert not plan.binds
    assert not plan.volumes
    assert "claim ns/data-7 (1Gi, class 'local') has no volume there" in message
    assert "of 7 of the class" in message
    assert not snapshot.volumes.reservations.choices
    assert not snapshot.volumes.reservations.taken


def test_smallest_volume_wins_and_ties_go_by_name() -> None:
    volumes = [a_volume("z", "a", size="2Gi"), a_volume("y", "a", size="5Gi")]
    same = [a_volume("x", "a", size="2Gi")]
    objects = a_cluster([node("a")], [pod("p", "c")], a_class(), a_claim("c"), *volumes, *same)

    assert outcome(objects)[1] == {"ns/c": {"pv": "x"}}


@pytest.mark.parametrize(
    "spoiled",
    [
        {"size": "512Mi"},
        {"modes": ("ReadOnlyMany",)},
        {"volumeMode": "Block"},
        {"claim": "other"},
        {"class_name": "else"},
        {"phase": "Released"},
        {"labels": {"disk": "hdd"}},
        {"volumeAttributesClassName": "gold"},
        {"node": "b"},
    ],
    ids=str,
)
def test_volume_that_does_not_fit_is_not_taken(spoiled: Body) -> None:
    """Each property alone excludes a volume, which a good one beside it shows."""
    claim = a_claim("c", selector={"matchLabels": {"disk": "ssd"}})
    bad = a_volume("bad", **{"node": "a", "labels": {"disk": "ssd"}, **spoiled})
    good = a_volume("good", "a", size="9Gi", labels={"disk": "ssd"})
    nodes = [node("a")]

    assert not outcome(a_cluster(nodes, [pod("p", "c")], a_class(), claim, bad))[0]
    mended = outcome(a_cluster(nodes, [pod("p", "c")], a_class(), claim, bad, good))
    assert mended[1] == {"ns/c": {"pv": "good"}}


def test_volume_reserved_for_the_claim_ends_the_search() -> None:
    """It is taken on its node whatever its phase, and no other is taken elsewhere."""
    reserved = a_volume("mine", "b", size="50Gi", modes=("ReadWriteMany",), claim="c")
    objects = a_cluster(
        two(), [pod("p", "c")], a_class(), a_claim("c"), reserved, a_volume("small", "a")
    )

    binds, chosen, _ = outcome(objects)

    assert binds == {"ns/p": "b"}
    assert chosen == {"ns/c": {"pv": "mine"}}


@pytest.mark.parametrize(
    ("mode", "volume"),
    [("ReadWriteOnce", {}), ("ReadWriteMany", {"ns/c": {"selectedNode": "a"}})],
    ids=["will be bound", "is never bound"],
)
def test_reserved_volume_elsewhere_is_waited_for_if_it_comes(mode: str, volume: Body) -> None:
    """The volume controller binds it, unless a mode is missing: then another one is made."""
    reserved = a_volume("mine", "b", MADE, modes=(mode,), claim="c")
    on_a = pod("p", "c", nodeSelector={HOST: "a"})
    _, chosen, _ = outcome(a_cluster(two(), [on_a], a_class(MADE), a_claim("c", MADE), reserved))

    assert chosen == volume


def test_full_matching_is_found_where_greedy_fails() -> None:
    """The small claim gives up the only volume that the large one can have."""
    small = a_claim("small", size="1Gi")
    large = a_claim("large", size="1Gi", modes=("ReadWriteOnce", "ReadOnlyMany"))
    volumes = [
        a_volume("one", "a", size="1Gi", modes=("ReadWriteOnce", "ReadOnlyMany")),
        a_volume("two", "a", size="2Gi"),
    ]
    pods = [pod("p", "small", "large")]

    _, chosen, _ = outcome(a_cluster([node("a")], pods, a_class(), small, large, *volumes))

    assert chosen == {"ns/large": {"pv": "one"}, "ns/small": {"pv": "two"}}


# --- bound claims


def test_pod_goes_where_its_bound_volume_is() -> None:
    bound = a_bound_claim("c", "pv")
    objects = a_cluster(two(), [pod("p", "c")], a_class(), bound, a_volume("pv", "b", claim="c"))

    binds, chosen, _ = outcome(objects)

    assert binds == {"ns/p": "b"}
    assert not chosen  # there is nothing to write


def test_bound_volume_elsewhere_is_named() -> None:
    bound = a_bound_claim("data-3", "pv")
    volume = a_volume("pv", "node-7", claim="data-3")

    message = outcome(a_cluster(two(), [pod("p", "data-3")], a_class(), bound, volume))[2]

    assert "claim ns/data-3 is bound to a volume on node-7" in message


@pytest.mark.parametrize(
    ("host", "fits"), [("", True), ("b", True), ("c", False)], ids=["alone", "there", "elsewhere"]
)
def test_fields_of_a_volume_are_not_looked_at(host: str, fits: bool) -> None:
    """As in kube-scheduler a volume is matched against labels only, and against all of them."""
    term: Body = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}
    if host:
        term["matchExpressions"] = [{"key": HOST, "operator": "In", "values": [host]}]
    volume = a_volume("pv", claim="c", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    binds = outcome(a_cluster(two(), [pod("p", "c")], a_bound_claim("c", "pv"), volume))[0]

    assert bool(binds) is fits
    assert not host or not fits or binds == {"ns/p": host}


@pytest.mark.parametrize(
    ("labels", "of_node", "fits"),
    [
        ({"topology.kubernetes.io/zone": "z1"}, {"topology.kubernetes.io/zone": "z1"}, True),
        ({"topology.kubernetes.io/zone": "z1"}, {"topology.kubernetes.io/zone": "z2"}, False),
        ({"topology.kubernetes.io/zone": "z1__ z2"}, {"topology.kubernetes.io/zone": "z2"}, True),
        ({"topology.kubernetes.io/zone": "z1"}, {}, True),
        ({"topology.kubernetes.io/zone": "z1"}, {"topology.kubernetes.io/region": "r"}, False),
        (
            {"failure-domain.beta.kubernetes.io/zone": "z1"},
            {"topology.kubernetes.io/zone": "z1"},
            True,
        ),
    ],
)
def test_zone_labels_of_a_volume_count(labels: Body, of_node: Body, fits: bool) -> None:
    volume = a_volume("pv", claim="c", labels=labels)
    nodes = [node("a", "4", **of_node)]
    objects = a_cluster(nodes, [pod("p", "c")], a_bound_claim("c", "pv"), volume)

    binds, _, message = outcome(objects)

    assert bool(binds) is fits
    assert fits or "is in topology.kubernetes.io/zone=" in message


# --- claims that nothing here can help


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ([], "claim ns/c does not exist"),
        ([a_claim("c", "now"), a_class("now", "Immediate")], "ns/c"),
        ([a_claim("c", None)], "pod has unbound immediate PersistentVolumeClaims: ns/c"),
        ([a_claim("c", "unknown")], "pod has unbound immediate PersistentVolumeClaims: ns/c"),
        ([a_class(), a_claim("c", volumeName="pv")], "pod has unbound immediate"),
        ([a_claim("c", phase="Lost", volumeName="pv")], "claim ns/c has lost its volume pv"),
        ([a_class(), a_claim("c", phase="Bound", volumeName="pv")], "unbound immediate"),
    ],
)
def test_claims_that_cannot_be_bound_are_named(storage: list[Body], text: str) -> None:
    binds, _, message = outcome(a_cluster(two(), [pod("p", "c")], *storage))

    assert not binds
    assert "0/2 nodes fit: 2 refused because" in message
    assert text in message


def test_deleted_claim_is_refused() -> None:
    claim = a_claim("c", MADE)
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    message = outcome(a_cluster(two(), [pod("p", "c")], a_class(MADE), claim))[2]

    assert "claim ns/c is being deleted" in message


def test_ephemeral_volume_needs_the_claim_of_its_own_pod() -> None:
    """The claim is named after pod and volume, and must be controlled by this pod."""
    ephemeral = pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    claim = a_claim("p-scratch", MADE)
    mine = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}

    missing = outcome(a_cluster(two(), [ephemeral], a_class(MADE)))
    foreign = outcome(a_cluster(two(), [ephemeral], a_class(MADE), claim))
    claim["metadata"]["ownerReferences"] = [mine]
    own = outcome(a_cluster(two(), [ephemeral], a_class(MADE), claim))

    assert "claim ns/p-scratch for its ephemeral volume has not been created yet" in missing[2]
    assert "was not made for this pod" in foreign[2]
    assert own[1] == {"ns/p-scratch": {"selectedNode": own[0]["ns/p"]}}


def test_one_pod_without_its_claim_keeps_no_other_waiting() -> None:
    """A gang of three that needs two starts without the pod whose claim is missing."""
    pods = [pod("p-0", "gone"), pod("p-1", "one"), pod("p-2", "two")]
    storage = [a_class(MADE), a_claim("one", MADE), a_claim("two", MADE)]

    binds, _, _ = outcome(a_cluster(two(), pods, *storage, minimum=2))

    assert set(binds) == {"ns/p-1", "ns/p-2"}


# --- provisioning


def test_claim_is_provisioned_where_its_pod_goes() -> None:
    objects = a_cluster(two(), [pod("p", "c")], a_class(MADE), a_claim("c", MADE))

    binds, chosen, _ = outcome(objects)

    assert chosen == {"ns/c": {"selectedNode": binds["ns/p"]}}


def test_selected_node_pins_the_pod() -> None:
    claim = a_claim("c", MADE, notes={SELECTED_NODE: "b"})
    binds, _, _ = outcome(a_cluster(two(), [pod("p", "c")], a_class(MADE), claim))
    lost = a_claim("c", MADE, notes={SELECTED_NODE: "z"})
    plan = plan_schedule(a_cluster(two(), [pod("p", "c")], a_class(MADE), lost))

    assert binds == {"ns/p": "b"}
    assert plan.lost_pins == {"ns/c": "z"}
    refusal = plan.groups["ns/gang"].refusal
    assert refusal is not None
    assert "claim ns/c is being provisioned for z, which is gone" in refusal.message


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}], True),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["z2"]}]}], False),
        ([{}], False),
    ],
)
def test_allowed_topologies_limit_provisioning(terms: list[Body], fits: bool) -> None:
    made = a_class(MADE, allowedTopologies=terms)
    objects = a_cluster([node("a", zone="z1")], [pod("p", "c")], made, a_claim("c", MADE))

    assert bool(outcome(objects)[0]) is fits


def capacity(amount: str, **fields: object) -> list[Body]:
    return [
        {"kind": "CSIDriver", "metadata": {"name": PROVISIONER}, "spec": {"storageCapacity": True}},
        {
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "cap", "namespace": "kube-system", "resourceVersion": "1"},
            "storageClassName": MADE,
            "nodeTopology": {},
            "capacity": amount,
            **fields,
        },
    ]


def test_storage_is_not_promised_twice() -> None:
    """Two pods with 60 Gi each do not both get the last 100 Gi."""
    pods = [pod("p-0", "c-0"), pod("p-1", "c-1")]
    claims = [a_claim(f"c-{i}", MADE, "60Gi") for i in range(2)]

    short = outcome(a_cluster(two(), pods, a_class(MADE), *claims, *capacity("100Gi")))
    enough = outcome(a_cluster(two(), pods, a_class(MADE), *claims, *capacity("120Gi")))
    small = capacity("900Gi", maximumVolumeSize="50Gi")

    assert not short[0]
    assert "too little storage is left to provision ns/c-1" in short[2]
    assert len(enough[0]) == 2
    assert not outcome(a_cluster(two(), pods, a_class(MADE), *claims, *small))[0]


# --- limits and exclusive use


def csi_node(name: str, count: int) -> Body:
    driver = {"name": PROVISIONER, "nodeID": name, "allocatable": {"count": count}}
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def test_attach_limit_counts_every_volume_once() -> None:
    """A node that takes one volume is full with another pod's, but not with the same."""
    csi = {"driver": PROVISIONER, "volumeHandle": "h"}
    storage = [
        a_class(MADE),
        a_bound_claim("old", "pv", MADE),
        a_volume("pv", class_name=MADE, claim="old", csi=csi),
        a_claim("new", MADE),
        csi_node("a", 1),
    ]
    running = pod("r", "old", on="a", group="other")

    full = outcome(a_cluster([node("a")], [running, pod("p", "new")], *storage, minimum=1))
    same = outcome(a_cluster([node("a")], [running, pod("p", "old")], *storage, minimum=1))
    open_ = outcome(
        a_cluster(two(), [running, pod("p", "new")], *storage, csi_node("b", 1), minimum=1)
    )

    assert "no more volumes of disks.example.com can be attached" in full[2]
    assert same[0] == {"ns/p": "a"}
    assert open_[0] == {"ns/p": "b"}


def bound_with(objects: SchedulerObjects, switch: str, *, on: bool) -> int:
    """How many pods are bound with a rule of the predicates on or off."""
    tiers = tuple(
        tuple(
            replace(option, arguments=Arguments({switch: on}))
            if option.name == "predicates"
            else option
            for option in tier
        )
        for tier in DEFAULT.tiers
    )
    body: Any = answer(run_cycle(objects.snapshot(), replace(DEFAULT, tiers=tiers), None))
    return len(body["binds"])


def test_rules_of_volumes_can_be_switched_off() -> None:
    """Zones and limits, each by its own switch."""
    zone = {"topology.kubernetes.io/zone": "z1"}
    other = node("a", "4", **{"topology.kubernetes.io/zone": "z2"})
    volume = a_volume("pv", claim="c", labels=zone)
    far = a_cluster([other], [pod("p", "c")], a_bound_claim("c", "pv"), volume)
    csi = {"driver": PROVISIONER, "volumeHandle": "h"}
    storage = [
        a_class(MADE),
        a_bound_claim("old", "pv", MADE),
        a_volume("pv", class_name=MADE, claim="old", csi=csi),
        a_claim("new", MADE),
        csi_node("a", 1),
    ]
    running = pod("r", "old", on="a", group="other")
    full = a_cluster([node("a")], [running, pod("p", "new")], *storage, minimum=1)

    for objects, switch in (
        (far, "predicate.VolumeZoneEnable"),
        (full, "predicate.NodeVolumeLimitsEnable"),
    ):
        assert bound_with(objects, switch, on=True) == 0
        assert bound_with(objects, switch, on=False) == 1


def test_attachment_counts_without_a_pod() -> None:
    storage = [
        a_class(MADE),
        a_claim("new", MADE),
        a_volume("pv", class_name=MADE, csi={"driver": PROVISIONER, "volumeHandle": "h"}),
        csi_node("a", 1),
        {
            "kind": "VolumeAttachment",
            "metadata": {"name": "x"},
            "spec": {"nodeName": "a", "source": {"persistentVolumeName": "pv"}},
        },
    ]

    assert not outcome(a_cluster([node("a")], [pod("p", "new")], *storage))[0]


def test_claim_for_one_pod_is_refused_while_another_uses_it() -> None:
    storage = [
        a_bound_claim("c", "pv", modes=("ReadWriteOncePod",)),
        a_volume("pv", claim="c", modes=("ReadWriteOncePod",)),
    ]
    user = pod("r", "c", on="a", group="other")

    used = outcome(a_cluster(two(), [user, pod("p", "c")], *storage, minimum=1))
    free = outcome(a_cluster(two(), [pod("p", "c")], *storage))
    both = outcome(a_cluster(two(), [pod("p", "c"), pod("q", "c")], *storage))

    assert "claim ns/c is ReadWriteOncePod and used by pod ns/r" in used[2]
    assert free[0]
    assert not both[0]
    assert "of the same gang: they can never run together" in both[2]


# --- shared claims


def test_gang_shares_a_claim_that_many_nodes_can_use() -> None:
    """Four pods on two nodes share one claim: it gets the first pod's node."""
    pods = [pod(f"p-{i}", "c") for i in range(4)]
    claim = a_claim("c", MADE, modes=("ReadWriteMany",))

    binds, chosen, _ = outcome(
        a_cluster([node("a", "2"), node("b", "2")], pods, a_class(MADE), claim)
    )

    assert sorted(binds.values()) == ["a", "a", "b", "b"]
    assert chosen == {"ns/c": {"selectedNode": binds["ns/p-0"]}}


def test_claim_for_one_node_keeps_its_pods_together() -> None:
    """The node is chosen with room for all of them, though another scores higher."""
    pods = [pod(f"p-{i}", "c") for i in range(3)]
    nodes = [node("a", "2"), node("b", "8")]

    binds, _, _ = outcome(a_cluster(nodes, pods, a_class(MADE), a_claim("c", MADE)))

    assert set(binds.values()) == {"b"}
    assert len(binds) == 3


# --- reservations


def test_undone_placements_give_their_volumes_back() -> None:
    """A gang that fails leaves its volumes to the next, which gets all of them."""
    first = [pod(f"p-{i}", f"p-{i}") for i in range(3)]
    objects = a_cluster([node("a")], first, a_class(), minimum=3)
    second = [pod(f"q-{i}", f"q-{i}", group="later") for i in range(2)]
    objects.pods += second
    later = codec.convert(
        {
            "metadata": {"name": "later", "namespace": "ns"},
            "spec": {"minMember": 2, "queue": "q"},
            "status": {"phase": "Inqueue"},
        },
        PodGroup,
    )
    objects.groups.append(later)
    for one in (*first, *second):
        body = a_claim(one.metadata.name)
        objects.claims.append(codec.convert(body, PersistentVolumeClaim))
    for i in range(2):
        objects.volumes.append(codec.convert(a_volume(f"pv-{i}", "a"), PersistentVolume))

    binds, chosen, _ = outcome(objects)

    assert set(binds) == {"ns/q-0", "ns/q-1"}
    assert set(chosen) == {"ns/q-0", "ns/q-1"}


def test_without_storage_objects_the_rules_are_off() -> None:
    objects = a_cluster(two(), [pod("p", "c")])
    objects.are_whole = False

    assert outcome(objects)[0]


def test_claim_counts_as_bound_by_its_annotation_not_by_its_phase() -> None:
    claim = a_claim("c", volumeName="pv", notes={BIND_COMPLETED: ""})
    objects = a_cluster(two(), [pod("p", "c")], a_class(), claim, a_volume("pv", "b", claim="c"))

    assert outcome(objects)[0] == {"ns/p": "b"}
