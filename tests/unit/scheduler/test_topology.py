"""Gangs with a network topology: where they are placed, and why they wait."""

from __future__ import annotations

import random

import pytest

from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.explain.explain import explain
from swell.scheduler.plan import answer
from tests.scheduler_cases import differences, load, run
from tests.topology_clusters import (
    HARD_1,
    HARD_2,
    ONE_NODE,
    SOFT,
    Row,
    at,
    binds,
    decide,
    gang,
    node,
    objects,
    pods,
    racks,
    racks_of,
    running,
    why,
)

HYPER_NODE_CASES = [case for case in load(units=False) if "hyperNodes" in case]


@pytest.mark.parametrize("case", HYPER_NODE_CASES, ids=lambda case: str(case["id"]))
@pytest.mark.parametrize("seed", range(5))
def test_recorded_cases_do_not_depend_on_the_order_of_objects(case: Row, seed: int) -> None:
    """The objects come in any order, and the expected decisions are the same."""
    chance = random.Random(seed)
    mixed: Row = {
        key: chance.sample(rows, len(rows))
        if key in {"nodes", "hyperNodes", "podGroups", "pods", "queues"}
        else rows
        for key, rows in case.items()
    }

    assert not differences(mixed, mixed["expect"], run(mixed))


def test_hard_gang_takes_one_rack() -> None:
    plan = decide(racks(2, 4), [gang("g", 4, HARD_1)], pods("g", 4))

    assert list(racks_of(plan).values()) == [4]


def test_hard_gang_that_fits_no_rack_waits_with_the_numbers() -> None:
    plan = decide(racks(2, 4), [gang("g", 5, HARD_1)], pods("g", 5))

    assert not plan.binds
    reason, message = why(plan, "g")
    assert reason == "TopologyNoDomain"
    assert "0 of 2 domains of tier ≤ 1 hold 5 pods; the best, r0, holds 4" in message


def test_minimum_takes_a_rack_and_surplus_waits() -> None:
    """Four of eight fit: the capacity test asks for the missing minimum only."""
    plan = decide(racks(2, 4), [gang("g", 4, HARD_1)], pods("g", 8))

    assert list(racks_of(plan).values()) == [4]


@pytest.mark.parametrize(("n", "n_racks", "n_blocks"), [(4, 1, 1), (6, 2, 1), (8, 2, 1), (9, 0, 0)])
def test_limit_of_two_takes_the_closest_domain_that_fits(
    n: int, n_racks: int, n_blocks: int
) -> None:
    plan = decide(racks(4, 4, per_block=2), [gang("g", n, HARD_2)], pods("g", n))

    found = racks_of(plan)
    assert len(found) == n_racks
    assert len({int(rack[1:]) // 2 for rack in found}) == n_blocks
    assert sum(found.values()) == (n if n_racks else 0)


def test_soft_gang_too_large_for_a_block_starts_across_blocks() -> None:
    plan = decide(racks(4, 4, per_block=2), [gang("g", 9, SOFT)], pods("g", 9))

    assert sum(racks_of(plan).values()) == 9
    assert answer(plan)["domains"] == {"ns/g": "<cluster-top-hypernode>"}


def test_fuller_rack_is_taken() -> None:
    other = running("old", [at(1, 0), at(1, 1)])
    plan = decide(racks(3, 4), [gang("old", 2), gang("g", 2, HARD_1)], [*other, *pods("g", 2)])

    assert racks_of(plan) == {"r1": 2}


def test_own_pods_decide_among_the_fullest_racks_that_take_the_gang() -> None:
    """A fuller rack that cannot take the pods does not keep that from counting."""
    base = racks(3, 4)
    for row in base["nodes"]:
        row["labels"] = {"fast": str(row["name"] != at(2, 3))}
    rows = [*running("old", [at(0, 0), *(at(2, n) for n in range(3))]), *running("g", [at(1, 0)])]
    rows += pods("g", 1, first=1, nodeSelector={"fast": "True"})
    plan = decide(base, [gang("old", 4), gang("g", 2, SOFT)], rows)

    assert racks_of(plan) == {"r1": 1}


def test_pods_are_closer_than_the_minimum_of_their_group_asks_for() -> None:
    """Only a block holds minResources; of its racks the fuller one takes all pods there are."""
    group = gang("g", 3, HARD_2, minResources={"cpu": "20"})
    rows = [*running("old", [at(1, 0)]), *pods("g", 3)]
    plan = decide(racks(2, 4, per_block=2), [gang("old", 1), group], rows)

    assert racks_of(plan) == {"r1": 3}


@pytest.mark.parametrize("topology", [HARD_2, SOFT])
def test_six_pods_over_racks_of_four_are_split_four_and_two(topology: Row) -> None:
    plan = decide(racks(3, 4, per_block=3), [gang("g", 6, topology)], pods("g", 6))

    assert sorted(racks_of(plan).values()) == [2, 4]


@pytest.mark.parametrize("claimed", ["", "r0", "no-such"])
def test_lost_pod_comes_back_to_the_held_rack(claimed: str) -> None:
    """The nodes of running pods decide, whatever the annotation says, also after a restart."""
    held = running("g", [at(1, 0), at(1, 1), at(1, 2)])
    groups = [gang("g", 4, HARD_1, **({"allocatedHyperNode": claimed} if claimed else {}))]
    plan = decide(racks(2, 4), groups, [*held, *pods("g", 1, first=3)])

    assert racks_of(plan) == {"r1": 1}


def test_lost_pod_waits_when_the_held_rack_is_full() -> None:
    held = running("g", [at(1, 0), at(1, 1), at(1, 2)])
    other = running("other", [at(1, 3)])
    rows = [*held, *other, *pods("g", 1, first=3)]
    plan = decide(racks(3, 4), [gang("g", 4, HARD_1), gang("other", 1)], rows)

    assert not plan.binds
    reason, message = why(plan, "g")
    assert reason == "TopologyHeld"
    assert "3 of 4 run in r1, which has no room for 1 more" in message
    assert "whole, it would fit into r0" in message


def test_gang_in_two_racks_gets_nothing_more() -> None:
    held = running("g", [at(0, 0), at(1, 0)])
    plan = decide(racks(2, 4), [gang("g", 3, HARD_1)], [*held, *pods("g", 1, first=2)])

    assert not plan.binds
    assert not plan.evictions
    assert why(plan, "g")[0] == "TopologyHeld"


# --- sub-groups


def parts(size: int, least: int, topology: Row | None = None, **more: object) -> list[Row]:
    row: Row = {
        "name": "part", "matchLabelKeys": ["part"], "subGroupSize": size, "minSubGroups": least,
        **more,
    }  # fmt: skip
    return [row if topology is None else {**row, "topology": topology}]


def parted(job: str, n: int, part: str, first: int = 0) -> list[Row]:
    return pods(job, n, first=first, labels={"part": part})


def test_each_sub_group_takes_a_rack_and_all_one_block() -> None:
    rows = [*parted("g", 4, "0"), *parted("g", 4, "1", 4)]
    group = gang("g", 8, HARD_2, subGroups=parts(4, 2, HARD_1))
    plan = decide(racks(6, 4, per_block=2), [group], rows)

    found = binds(plan)
    one = {found[f"g-w-{k}"].rpartition("-")[2] for k in range(4)}
    two = {found[f"g-w-{k}"].rpartition("-")[2] for k in range(4, 8)}
    assert len(one) == len(two) == 1
    assert one != two
    assert len({int(rack[1:]) // 2 for rack in one | two}) == 1
    assert set(plan.domains) == {"ns/g", "ns/g/part-0", "ns/g/part-1"}


def test_two_of_three_sub_groups_start_together() -> None:
    """The third waits for room, and does not stop the others."""
    rows = [row for k in range(3) for row in parted("g", 4, str(k), 4 * k)]
    group = gang("g", 8, subGroups=parts(4, 2, HARD_1))
    plan = decide(racks(2, 4), [group], rows)

    assert racks_of(plan) == {"r0": 4, "r1": 4}
    plan = decide(racks(3, 4), [group], rows)
    assert racks_of(plan) == {"r0": 4, "r1": 4, "r2": 4}


def test_sub_group_that_cannot_be_placed_is_skipped() -> None:
    big = pods("g", 4, labels={"part": "0"}, requests={"cpu": "5", "memory": "1Gi"})
    rows = [*big, *parted("g", 4, "1", 4)]
    plan = decide(racks(2, 4), [gang("g", 4, subGroups=parts(4, 1, HARD_1))], rows)

    assert sorted(binds(plan)) == [f"g-w-{k}" for k in range(4, 8)]


def test_gang_of_more_pods_than_its_sub_group_needs_waits_for_room_together() -> None:
    """All five nodes are being left: the fifth pod belongs to the minimum of the gang, too."""
    leaving = running("old", [at(0, n) for n in range(5)], deleting=True)
    group = gang("g", 5, subGroups=parts(4, 1, HARD_1))
    plan = decide(racks(1, 5), [gang("old", 1), group], [*leaving, *parted("g", 5, "0")])

    assert why(plan, "g")[0] == "WaitingForVictims"


def test_too_few_sub_groups_are_no_valid_job() -> None:
    plan = decide(racks(2, 4), [gang("g", 4, subGroups=parts(4, 2, HARD_1))], parted("g", 4, "0"))

    assert not plan.binds
    reason, message = why(plan, "g")
    assert reason == "NotEnoughPodsOfTask"
    assert "1 of the 2 sub-groups of 'part' exist" in message


def test_sub_group_with_too_few_pods_is_not_placed_and_named() -> None:
    rows = [*parted("g", 4, "0"), *parted("g", 3, "1", 4)]
    plan = decide(racks(2, 4), [gang("g", 7, subGroups=parts(4, 2, HARD_1))], rows)

    assert not plan.binds
    assert "sub-group part-1 has 3 of its 4 pods" in why(plan, "g")[1]


def test_policy_without_keys_makes_one_sub_group() -> None:
    policy = [{"name": "all", "subGroupSize": 4, "minSubGroups": 1, "topology": HARD_1}]
    plan = decide(racks(2, 4), [gang("g", 4, subGroups=policy)], pods("g", 4))

    assert list(racks_of(plan).values()) == [4]


# --- constraints that do not apply


def without_plugin() -> Config:
    tiers = tuple(
        tuple(one for one in tier if one.name != "network-topology-aware") for tier in DEFAULT.tiers
    )
    return Config(DEFAULT.actions, tiers, DEFAULT.action_arguments)


@pytest.mark.parametrize(
    ("topology", "config"),
    [({"mode": "hard", "highestTierName": "pod"}, DEFAULT), (HARD_1, without_plugin())],
)
def test_constraint_that_is_not_applied_does_not_stop_the_gang(
    topology: Row, config: Config
) -> None:
    plan = decide(racks(2, 4), [gang("g", 5, topology)], pods("g", 5), config)

    assert len(plan.binds) == 5
    assert list(plan.not_applied) == ["ns/g"]


def test_limit_by_name_is_the_tier_of_that_name() -> None:
    base = racks(4, 4, per_block=2)
    for row in base["hyperNodes"]:
        row["tierName"] = "rack" if row["tier"] == 1 else "block"
    for name, n_bound in (("rack", 0), ("block", 6)):
        topology = {"mode": "hard", "highestTierName": name}
        plan = decide(base, [gang("g", 6, topology)], pods("g", 6))
        assert len(plan.binds) == n_bound
        assert not plan.not_applied


# --- pods without a topology


def small(job: str, n: int) -> list[Row]:
    return pods(job, n, requests={"cpu": "2", "memory": "4Gi"})


def scores_only(**arguments: object) -> list[list[Row]]:
    plugin = {"name": "network-topology-aware", "enable": ["NodeOrder"], "args": arguments}
    return [[{"name": "predicates", "enable": ["Predicate"]}, plugin]]


def test_pods_without_topology_fill_the_fuller_rack_first() -> None:
    old = running("old", [at(1, 0)])
    case = {
        **racks(3, 2), "actions": ["allocate"], "tiers": scores_only(),
        "podGroups": [gang("old", 1), gang("g", 1)], "pods": [*old, *small("g", 2)],
    }  # fmt: skip
    outcome = run(case)

    assert racks_of(outcome.plan) == {"r1": 2}


def test_pods_of_an_unlimited_gang_stay_as_they_are_with_the_switch_off() -> None:
    """With the argument off, and without a tree, placements are those of before."""
    base, rows = racks(3, 4), [*running("old", [at(1, 0)]), *small("g", 5)]
    groups = [gang("old", 1), gang("g", 5)]
    off = DEFAULT.tiers[1][-1]
    assert off.name == "network-topology-aware"
    quiet = Config(
        DEFAULT.actions,
        (
            DEFAULT.tiers[0],
            (
                *DEFAULT.tiers[1][:-1],
                type(off)(
                    off.name,
                    arguments=type(off.arguments)({"hypernode.binpack.normal-pod.enable": "false"}),
                ),
            ),
        ),
        DEFAULT.action_arguments,
    )
    without = decide(base, groups, rows, without_plugin())
    bare = {**base, "hyperNodes": []}

    assert answer(decide(base, groups, rows, quiet))["binds"] == answer(without)["binds"]
    assert answer(decide(bare, groups, rows))["binds"] == answer(without)["binds"]


def test_best_effort_pods_stay_in_the_held_domain() -> None:
    rows = [*pods("g", 3), *pods("g", 2, first=3, requests={})]
    plan = decide(racks(3, 4), [gang("g", 5, HARD_1)], rows)

    assert list(racks_of(plan).values()) == [5]


def test_best_effort_gang_takes_one_domain() -> None:
    base = racks(2, 2)
    for row in base["nodes"]:
        row["allocatable"] = {**ONE_NODE, "pods": "2"}
    plan = decide(base, [gang("g", 4, HARD_1)], pods("g", 4, requests={}))
    assert list(racks_of(plan).values()) == [4]

    # A pod that asks for nothing counts as ready while it waits: the fifth starts nowhere else.
    plan = decide(base, [gang("g", 5, HARD_1)], pods("g", 5, requests={}))
    assert list(racks_of(plan).values()) == [4]


def test_nodes_outside_the_tree_are_reached_through_the_root_only() -> None:
    base = racks(1, 2)
    base["nodes"].append(node("outside"))
    assert not decide(base, [gang("g", 3, HARD_1)], pods("g", 3)).binds
    assert len(decide(base, [gang("g", 3, HARD_2)], pods("g", 3)).binds) == 3
    assert "1 node is in none" in why(decide(base, [gang("g", 3, HARD_1)], pods("g", 3)), "g")[1]


def test_explain_counts_the_domains() -> None:
    found = objects(racks(4, 4), [gang("g", 5, HARD_1)], pods("g", 5))
    explained = explain(found, "ns/g")

    assert explained is not None
    (facts,) = explained.domains
    assert (facts.tier, facts.n_domains, facts.n_wanted, facts.n_enough) == (1, 4, 5, 0)
    assert [(one.name, one.n_pods) for one in facts.best] == [("r0", 4), ("r1", 4), ("r2", 4)]


def test_explain_says_which_constraint_has_no_effect() -> None:
    unknown = {"mode": "hard", "highestTierName": "no-such"}
    explained = explain(objects(racks(1, 2), [gang("g", 3, unknown)], pods("g", 3)), "ns/g")

    assert explained is not None
    assert explained.topology_not_applied == "no HyperNode has the tier name 'no-such'"


def test_gang_limited_to_a_broken_part_names_it() -> None:
    """The younger of two claims to a rack is left out; the gang would have fitted there."""
    base = racks(2, 2)
    base["hyperNodes"] += [
        {"name": "b0", "tier": 2, "members": ["r0"]},
        {"name": "b1", "tier": 2, "members": ["r1", "r0"]},
    ]
    plan = decide(base, [gang("g", 3, HARD_2), gang("h", 2, HARD_1)], [*pods("g", 3)])

    reason, message = why(plan, "g")
    assert reason == "TopologyTreeInvalid"
    assert "HyperNode b1 is left out: its member r0 belongs to b0 already" in message
    elsewhere = decide(base, [gang("g", 3, HARD_2), gang("h", 2, HARD_1)], pods("h", 2))
    assert len(elsewhere.binds) == 2
