"""Topology from node labels: the tree, Kueue's annotations, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swell.scheduler.config import DEFAULT, PluginOption, SchedulerConfigError
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN, SchedulingPlan, run_cycle
from swell.scheduler.model.label_topology import LabelList, build_label_tree
from swell.scheduler.model.snapshot import SchedulerSnapshot
from tests.topology_clusters import (
    HARD_1,
    HARD_2,
    SOFT,
    Row,
    binds,
    decide,
    gang,
    node,
    objects,
    pods,
    running,
    why,
    with_labels,
)

KUEUE = "kueue.x-k8s.io/podset-"
REQUIRED, PREFERRED = f"{KUEUE}required-topology", f"{KUEUE}preferred-topology"
SLICE, SIZE = f"{KUEUE}slice-required-topology", f"{KUEUE}slice-size"
GROUP = f"{KUEUE}group-name"
HOST = "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"


BLOCK_RACK = with_labels("block, rack")


def cluster(n_blocks: int = 1, n_racks: int = 2, n_nodes: int = 4) -> Row:
    """Blocks b0, b1, …, in each racks r0, r1, … of nodes; names of racks repeat in each block."""
    rows = [
        node(
            f"n{n}-r{rack}-b{block}",
            labels={"block": f"b{block}", "rack": f"r{rack}", HOST: f"n{n}-r{rack}-b{block}"},
        )
        for block in range(n_blocks)
        for rack in range(n_racks)
        for n in range(n_nodes)
    ]
    return {"nodes": rows, "queues": [{"name": "q1", "weight": 1}]}


def spread(plan: SchedulingPlan, job: str = "") -> dict[str, int]:
    """Returns how many pods of a job each rack got."""
    counts: dict[str, int] = {}
    for place in binds(plan, job).values():
        _, rack, block = place.split("-")
        counts[f"{block}/{rack}"] = counts.get(f"{block}/{rack}", 0) + 1
    return dict(sorted(counts.items()))


def asking(job: str, n: int, notes: dict[str, str], *, first: int = 0, **more: Any) -> list[Row]:
    """Pods with annotations, numbered as those of an Indexed Job are."""
    rows = pods(job, n, first=first, notes=notes, **more)
    return [
        {**row, "labels": {**row.get("labels", {}), INDEX: str(first + k)}}
        for k, row in enumerate(rows)
    ]


# --- the tree


def test_domain_is_the_path_of_values() -> None:
    """Two racks of one name in two blocks are two domains."""
    snapshot = objects(cluster(2, 1, 2), [], []).snapshot()
    tree = build_label_tree([LabelList("", ("block", "rack"))], snapshot.nodes)

    assert tree.names[:-1] == ("b0", "b0/r0", "b1", "b1/r0")
    assert tree.tiers.tolist() == [2, 1, 2, 1, 3]
    assert tree.tier_names == {"block": 2, "rack": 1}

    plan = decide(cluster(2, 1, 2), [gang("a", 3, HARD_1)], pods("a", 3), BLOCK_RACK)

    assert why(plan, "a")[0] == "TopologyNoDomain"


def test_node_without_one_of_the_keys_is_in_the_root_only() -> None:
    """It is no place for a gang that must stay in one rack."""
    base = cluster(1, 1, 2)
    base["nodes"] += [node("x0", labels={"rack": "r0"}), node("x1")]

    hard = decide(base, [gang("a", 3, HARD_1)], pods("a", 3), BLOCK_RACK)
    soft = decide(base, [gang("a", 4, SOFT)], pods("a", 4), BLOCK_RACK)

    assert why(hard, "a") == (
        "TopologyNoDomain",
        "3/3 tasks in gang unschedulable: 0 of 1 domain of tier ≤ 1 hold 3 pods; "
        "the best, b0/r0, holds 2; 2 nodes are in none of them",
    )
    assert len(binds(soft)) == 4


def test_further_lists_are_for_nodes_with_other_labels() -> None:
    """A node belongs to the first list by name all of whose keys it has."""
    config = with_labels("block, rack", **{"topology.labels.pool": "row"})
    base = cluster(1, 1, 2)
    base["nodes"] += [node(f"x{n}", labels={"row": "1"}) for n in range(3)]

    plan = decide(base, [gang("a", 3, HARD_1)], pods("a", 3), config)

    assert set(binds(plan).values()) == {"x0", "x1", "x2"}
    assert plan.domains["ns/a"].name == "1"


def test_relabelled_node_leaves_its_domain_and_a_running_gang_is_not_touched() -> None:
    """The gang spans two racks then: its next pod waits."""
    rows = running("a", ["n0-r0-b0", "n1-r0-b0"])
    snapshot = objects(cluster(), [gang("a", 2, HARD_1)], rows + pods("a", 1, first=2)).snapshot()
    moved = objects({"nodes": [node("n1-r0-b0", labels={"block": "b0", "rack": "r1"})]}, [], [])
    snapshot.put_node(moved.nodes[0])

    plan = run_cycle(snapshot, BLOCK_RACK)

    assert (plan.binds, plan.evictions) == ({}, ())
    assert "no domain of tier ≤ 1 has all of them" in _pod_reason(plan, snapshot, "a")


def _pod_reason(plan: SchedulingPlan, snapshot: SchedulerSnapshot, job: str) -> str:
    found = plan.pod_refusals(snapshot.jobs[f"ns/{job}"])
    return " ".join(refusal.message for refusal in found.values())


def test_lists_are_off_while_a_hyper_node_exists() -> None:
    """Two descriptions of one network would contradict each other."""
    base = cluster(1, 2, 2)
    mixed = [{"name": "hn", "tier": 1, "members": ["n0-r0-b0", "n0-r1-b0"]}]
    both = decide({**base, "hyperNodes": mixed}, [gang("a", 2, HARD_1)], pods("a", 2), BLOCK_RACK)
    labels = decide(base, [gang("a", 2, HARD_1)], pods("a", 2), BLOCK_RACK)

    assert (both.domains["ns/a"].name, labels.domains["ns/a"].name) == ("hn", "b0/r0")


def test_waiting_gang_is_reconsidered_when_the_key_is_configured() -> None:
    """The lists are read at each cycle; what runs stays where it is."""
    rows = running("old", ["n0-r0-b0", "n0-r1-b0"])
    notes = {REQUIRED: "rack"}
    snapshot = objects(
        cluster(), [gang("old", 2), gang("a", 3)], rows + asking("a", 3, notes)
    ).snapshot()

    before = run_cycle(snapshot, DEFAULT)
    after = run_cycle(snapshot, BLOCK_RACK)

    assert why(before, "a")[0] == "TopologyLevelUnknown"
    assert "'rack'" in why(before, "a")[1]
    assert list(spread(after, "a").values()) == [3]
    assert not after.evictions


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("block,,rack", "entry 2 is empty"),
        ("", "entry 1 is empty"),
        ("rack, block, rack", "'rack' is listed twice"),
        (f"{HOST}, rack", f"'{HOST}' can only be the last entry"),
    ],
)
def test_lists_that_cannot_be_meant_are_refused(labels: str, problem: str) -> None:
    """The whole configuration is, so that the one before stays in force."""
    plugin = {"name": "network-topology-aware", "arguments": {"topology.labels.x": labels}}

    with pytest.raises(SchedulerConfigError, match=r"topology\.labels\.x") as raised:
        parse({"tiers": [{"plugins": [plugin]}]}, KNOWN)

    assert problem in str(raised.value)


def test_key_on_several_tiers_is_remarked() -> None:
    """Who names it stays within its lowest tier everywhere."""
    arguments = {"topology.labels": "block, rack", "topology.labels.b": "rack, switch"}
    plugin = {"name": "network-topology-aware", "arguments": arguments}

    assert (
        "'rack' is on several tiers" in parse({"tiers": [{"plugins": [plugin]}]}, KNOWN).warnings[0]
    )


# --- groups, by tier and by name


def test_groups_mean_the_same_as_with_hyper_nodes() -> None:
    """By tier or by the key as tier name; the fuller rack first; 6 are split 4 + 2."""
    by_name: Row = {"mode": "hard", "highestTierName": "rack"}
    base = cluster(2, 2, 4)

    assert list(
        spread(decide(base, [gang("a", 4, by_name)], pods("a", 4), BLOCK_RACK)).values()
    ) == [4]
    six = decide(base, [gang("a", 6, HARD_2)], pods("a", 6), BLOCK_RACK)
    assert sorted(spread(six).values()) == [2, 4]
    assert len({name.split("/")[0] for name in spread(six)}) == 1
    nine = decide(base, [gang("a", 9, HARD_2)], pods("a", 9), BLOCK_RACK)
    assert why(nine, "a")[0] == "TopologyNoDomain"
    fuller = running("old", ["n0-r1-b1"])
    plan = decide(base, [gang("old", 1), gang("a", 2, HARD_1)], fuller + pods("a", 2), BLOCK_RACK)
    assert spread(plan, "a") == {"b1/r1": 2}


# --- annotations


def test_required_level_keeps_a_role_in_one_domain_or_waiting() -> None:
    """Only the named role is bound by it; the minimum starts, and growth stays inside."""
    notes = {REQUIRED: "rack"}
    base = cluster(1, 2, 4)

    whole = decide(base, [gang("a", 4)], asking("a", 4, notes), BLOCK_RACK)
    large = decide(base, [gang("a", 5)], asking("a", 5, notes), BLOCK_RACK)
    snapshot = objects(base, [gang("a", 3)], asking("a", 6, notes)).snapshot()
    elastic = run_cycle(snapshot, BLOCK_RACK)

    assert "no room for 2 more" in _pod_reason(elastic, snapshot, "a")
    assert list(spread(whole).values()) == [4]
    assert why(large, "a")[0] == "TopologyNoDomain"
    assert list(spread(elastic).values()) == [4]
    assert whole.domains["ns/a/pods"].name in {"b0/r0", "b0/r1"}


def test_lost_pod_of_a_required_level_goes_back_or_waits() -> None:
    """The nodes of those that run decide."""
    notes = {REQUIRED: "rack"}
    rows = running("a", [f"n{n}-r0-b0" for n in range(3)], notes=notes)
    late = asking("a", 1, notes, first=3)
    other = running("b", ["n3-r0-b0"])

    free = decide(cluster(), [gang("a", 4)], rows + late, BLOCK_RACK)
    full = decide(cluster(), [gang("a", 4), gang("b", 1)], rows + late + other, BLOCK_RACK)

    assert binds(free) == {"a-w-3": "n3-r0-b0"}
    assert why(full, "a")[0] == "TopologyHeld"


def test_preferred_level_is_tried_first_then_wider_ones() -> None:
    """Closer levels are not asked for, and at last the whole cluster will do."""
    base = cluster(2, 2, 2)

    rack = decide(base, [gang("a", 2)], asking("a", 2, {PREFERRED: "rack"}), BLOCK_RACK)
    block = decide(base, [gang("a", 3)], asking("a", 3, {PREFERRED: "rack"}), BLOCK_RACK)
    spread_out = decide(base, [gang("a", 6)], asking("a", 6, {PREFERRED: "rack"}), BLOCK_RACK)

    assert list(spread(rack).values()) == [2]
    assert len({name.split("/")[0] for name in spread(block)}) == 1
    assert len(binds(spread_out)) == 6


def test_preferred_block_is_the_first_level_that_is_tried() -> None:
    """The fullest block wins, where `soft` takes the fullest rack of all."""
    full = [f"n{n}-r0-b0" for n in range(4)] + ["n0-r1-b0"]
    filler = running("old", full + [f"n{n}-r0-b1" for n in range(3)])
    base = cluster(2, 2, 4)

    soft = decide(base, [gang("old", 8), gang("a", 1, SOFT)], filler + pods("a", 1), BLOCK_RACK)
    late = asking("a", 1, {PREFERRED: "block"})
    plan = decide(base, [gang("old", 8), gang("a", 1)], filler + late, BLOCK_RACK)

    assert spread(soft, "a") == {"b1/r0": 1}
    assert spread(plan, "a") == {"b0/r1": 1}


def test_unconstrained_asks_for_nothing() -> None:
    """Such a gang takes the ordinary path, with any level configured or none."""
    notes = {f"{KUEUE}unconstrained-topology": "true"}
    plan = decide(cluster(1, 1, 2), [gang("a", 2)], asking("a", 2, notes))

    assert len(binds(plan)) == 2
    assert not plan.domains


def test_slices_are_within_one_domain_each_inside_the_outer_level() -> None:
    """Eight pods in a block, each four in a rack of four."""
    notes = {REQUIRED: "block", SLICE: "rack", SIZE: "4"}
    base = cluster(2, 3, 4)
    plan = decide(base, [gang("a", 8)], asking("a", 8, notes), BLOCK_RACK)
    places = binds(plan)

    assert len(places) == 8
    assert len({place.split("-")[2] for place in places.values()}) == 1
    for start in (0, 4):
        racks = {places[f"a-w-{k}"].split("-")[1] for k in range(start, start + 4)}
        assert len(racks) == 1


def test_incomplete_last_slice_counts_with_the_pods_it_has() -> None:
    """Six pods in slices of four: four and two."""
    notes = {SLICE: "rack", SIZE: "4"}
    plan = decide(cluster(1, 2, 4), [gang("a", 6)], asking("a", 6, notes), BLOCK_RACK)

    assert sorted(spread(plan).values()) == [2, 4]


def test_slices_of_a_host() -> None:
    """Single nodes are domains for those who name them, and for nobody else."""
    config = with_labels(f"rack, {HOST}")
    small = {"cpu": "1", "memory": "1Gi"}
    notes = {REQUIRED: "rack", SLICE: HOST, SIZE: "4"}
    plan = decide(cluster(1, 2, 2), [gang("a", 8)], asking("a", 8, notes, requests=small), config)
    places = binds(plan)

    assert len(places) == 8
    assert len({place.split("-")[1] for place in places.values()}) == 1
    assert len({places[f"a-w-{k}"] for k in range(4)}) == 1
    assert len({places[f"a-w-{k}"] for k in range(4, 8)}) == 1
    # A gang that names the rack is not kept on one host.
    rack = decide(cluster(1, 2, 2), [gang("a", 2)], asking("a", 2, {REQUIRED: "rack"}), config)
    assert rack.domains["ns/a/pods"].tier == 1


def test_roles_of_one_group_name_share_a_domain() -> None:
    """A leader and its workers."""
    notes = {REQUIRED: "rack", GROUP: "all"}
    group = gang("a", 4, minTaskMember={"leader": 1, "worker": 3})
    rows = asking("a", 1, notes, role="leader") + asking("a", 3, notes, first=1, role="worker")

    apart = {REQUIRED: "rack"}
    alone = asking("a", 1, apart, role="leader") + asking("a", 3, apart, first=1, role="worker")
    filler = running("b", ["n0-r0-b0", "n0-r1-b0"])
    base, groups = cluster(1, 2, 3), [group, gang("b", 2)]

    assert list(spread(decide(cluster(1, 2, 4), [group], rows, BLOCK_RACK)).values()) == [4]
    assert why(decide(base, groups, rows + filler, BLOCK_RACK), "a")[0] == "TopologyNoDomain"
    assert why(decide(base, groups, alone + filler, BLOCK_RACK), "a")[0] == "TopologyNoDomain"
    assert len(binds(decide(cluster(1, 2, 3), [group], alone, BLOCK_RACK), "a")) == 4


def test_annotations_count_only_where_the_group_says_nothing() -> None:
    """A networkTopology of the group is the stronger word."""
    plan = decide(
        cluster(1, 2, 2), [gang("a", 4, HARD_2)], asking("a", 4, {REQUIRED: "rack"}), BLOCK_RACK
    )

    assert len(binds(plan)) == 4


REFUSED = [
    pytest.param({REQUIRED: "row"}, "TopologyLevelUnknown", "known: block, rack", id="level"),
    pytest.param({PREFERRED: "row"}, "TopologyLevelUnknown", "'row'", id="preferred level"),
    pytest.param(
        {REQUIRED: "rack", PREFERRED: "block"},
        "TopologyNotSupported",
        "exclude each other",
        id="two ways",
    ),
    pytest.param(
        {f"{KUEUE}slice-required-topology-constraints": "[]"},
        "TopologyNotSupported",
        "slices in slices",
        id="nested",
    ),
    pytest.param({SLICE: "rack"}, "TopologyNotSupported", "needs", id="no size"),
    pytest.param({SLICE: "rack", SIZE: "0"}, "TopologyNotSupported", "at least 1", id="size 0"),
    pytest.param({SLICE: "rack", SIZE: "x"}, "TopologyNotSupported", "a number", id="size x"),
    pytest.param(
        {REQUIRED: "rack", SLICE: "block", SIZE: "2"},
        "TopologyNotSupported",
        "slices within 'block' are not below 'rack'",
        id="order",
    ),
]


@pytest.mark.parametrize(("notes", "reason", "text"), REFUSED)
def test_annotations_that_cannot_be_honoured_are_refused_in_words(
    notes: dict[str, str], reason: str, text: str
) -> None:
    """Nothing is placed, and the group says why."""
    plan = decide(cluster(), [gang("a", 2)], asking("a", 2, notes), BLOCK_RACK)

    assert plan.binds == {}
    assert why(plan, "a")[0] == reason
    assert text in why(plan, "a")[1]


def test_pods_that_disagree_and_pods_without_index_are_refused() -> None:
    """Which of them counts, or which slice they are in, cannot be known."""
    mixed = asking("a", 1, {REQUIRED: "rack"}) + asking("a", 1, {REQUIRED: "block"}, first=1)
    bare = pods("a", 2, notes={SLICE: "rack", SIZE: "2"})
    outer = asking("a", 1, {REQUIRED: "block", SLICE: "rack", SIZE: "1"}, role="x")
    outer += asking("a", 1, {REQUIRED: "rack"}, first=1, role="y")
    grouped = asking("a", 1, {REQUIRED: "block", GROUP: "g"}, role="x")
    grouped += asking("a", 1, {REQUIRED: "rack", GROUP: "g"}, first=1, role="y")

    for rows, text in (
        (mixed, "different annotations"),
        (bare, "without index"),
        (outer, "the same outer level"),
        (grouped, "name different levels"),
    ):
        plan = decide(cluster(), [gang("a", 2)], rows, BLOCK_RACK)
        assert plan.binds == {}
        assert why(plan, "a")[0] == "TopologyNotSupported"
        assert text in why(plan, "a")[1]


def test_annotations_without_the_plugin_are_placed_and_reported() -> None:
    """As for groups: no plugin, no constraint, and a word about it."""
    bare = replace(
        DEFAULT,
        tiers=tuple(
            tuple(o for o in tier if o.name != "network-topology-aware") for tier in DEFAULT.tiers
        ),
    )
    plan = decide(cluster(), [gang("a", 2)], asking("a", 2, {REQUIRED: "rack"}), bare)

    assert len(plan.binds) == 2
    assert "network-topology-aware" in plan.not_applied["ns/a"]


def test_role_that_stops_asking_is_free() -> None:
    """Sub-groups follow the pods that there are."""
    snapshot = objects(
        cluster(1, 2, 2), [gang("a", 3)], asking("a", 3, {REQUIRED: "rack"})
    ).snapshot()
    assert not run_cycle(snapshot, BLOCK_RACK).binds

    for pod in objects({"nodes": []}, [], asking("a", 3, {})).pods:
        snapshot.put_pod(pod)

    assert len(run_cycle(snapshot, BLOCK_RACK).binds) == 3


def test_nothing_about_labels_is_computed_without_the_argument() -> None:
    """The default configuration has none."""
    snapshot = objects(cluster(), [gang("a", 4)], pods("a", 4)).snapshot()
    run_cycle(snapshot, DEFAULT)

    assert snapshot.label_topology._tree is None
    assert PluginOption("network-topology-aware") in DEFAULT.tiers[1]
