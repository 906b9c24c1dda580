"""Room by eviction for gangs that must stay within one part of the network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swell.scheduler.config import DEFAULT, Arguments
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN, SchedulingPlan
from tests.topology_clusters import (
    HARD_1,
    HARD_2,
    SOFT,
    Row,
    at,
    decide,
    gang,
    node,
    pods,
    racks,
    running,
    why,
)

CLASSES = {"low": {"value": 1}, "mid": {"value": 5}, "high": {"value": 10}}
LOW: Row = {"priorityClassName": "low"}
MID: Row = {"priorityClassName": "mid"}
HIGH: Row = {"priorityClassName": "high"}


def victims(plan: SchedulingPlan) -> list[str]:
    return sorted(eviction.task.key.removeprefix("ns/") for eviction in plan.evictions)


def promised(plan: SchedulingPlan) -> set[str]:
    return {place.rpartition("-")[2] for place in plan.pipelined.values()}


def rack(number: int, n: int = 4) -> list[str]:
    return [at(number, k) for k in range(n)]


def test_cheapest_rack_is_cleared() -> None:
    """Two gangs of two, one gang of four, and four single pods of higher priority."""
    groups = [
        gang("a", 2, **LOW), gang("b", 2, **LOW), gang("c", 4, **LOW), gang("d", 1, **MID),
        gang("claim", 4, HARD_1, **HIGH),
    ]  # fmt: skip
    rows = [
        *running("a", rack(0)[:2]), *running("b", rack(0)[2:]), *running("c", rack(1)),
        *running("d", rack(2)), *pods("claim", 4),
    ]  # fmt: skip
    plan = decide(racks(3, 4), groups, rows, priorityClasses=CLASSES)

    assert victims(plan) == [f"c-w-{k}" for k in range(4)]
    assert promised(plan) == {"r1"}


def test_free_room_in_the_rack_is_used() -> None:
    groups = [gang("a", 1, **LOW), gang("b", 4, **MID), gang("claim", 4, HARD_1, **HIGH)]
    rows = [*running("a", rack(0)[:2]), *running("b", rack(1)), *pods("claim", 4)]
    plan = decide(racks(2, 4), groups, rows, priorityClasses=CLASSES)

    assert len(victims(plan)) == 2
    assert promised(plan) == {"r0"}


def test_chosen_gang_leaves_everywhere_and_nobody_else_outside() -> None:
    groups = [
        gang("a", 6, **LOW), gang("b", 2, **MID), gang("c", 4, **HIGH),
        gang("claim", 4, HARD_1, **HIGH),
    ]  # fmt: skip
    rows = [
        *running("a", [*rack(0), *rack(1)[:2]]), *running("b", rack(1)[2:]),
        *running("c", rack(2)), *pods("claim", 4),
    ]  # fmt: skip
    plan = decide(racks(3, 4), groups, rows, priorityClasses=CLASSES)

    assert victims(plan) == [f"a-w-{k}" for k in range(6)]
    assert promised(plan) == {"r0"}


def test_nobody_leaves_when_no_rack_can_be_cleared() -> None:
    """Each rack has a pod that may not be evicted; together they would have had room enough."""
    groups = [gang("a", 1, **LOW), gang("vip", 1, **HIGH), gang("claim", 4, HARD_1, **HIGH)]
    rows = [
        *running("a", [*rack(0)[:3], *rack(1)[:3], *rack(2)[:3]]),
        *running("vip", [rack(0)[3], rack(1)[3], rack(2)[3]]),
        *pods("claim", 4),
    ]
    plan = decide(racks(3, 4), groups, rows, priorityClasses=CLASSES)

    assert not plan.evictions
    assert not plan.pipelined
    assert why(plan, "claim")[0] == "TopologyNoDomain"


def test_closest_tier_that_can_be_cleared_decides() -> None:
    groups = [gang("a", 1, **LOW), gang("claim", 6, HARD_2, **HIGH)]
    rows = [*running("a", [place for k in range(4) for place in rack(k)]), *pods("claim", 6)]
    plan = decide(racks(4, 4, per_block=2), groups, rows, priorityClasses=CLASSES)

    assert len(victims(plan)) == 6
    assert len({int(name[1:]) // 2 for name in promised(plan)}) == 1


def test_soft_gang_claims_anywhere() -> None:
    base = racks(2, 2)
    groups = [gang("a", 1, **LOW), gang("claim", 3, SOFT, **HIGH)]
    rows = [*running("a", [*rack(0, 2), *rack(1, 2)]), *pods("claim", 3)]
    plan = decide(base, groups, rows, priorityClasses=CLASSES)

    assert len(victims(plan)) == 3
    assert len(plan.pipelined) == 3


def test_held_domain_limits_the_claim() -> None:
    groups = [gang("a", 1, **LOW), gang("b", 1, **HIGH), gang("claim", 2, HARD_1, **HIGH)]
    rows = [
        *running("claim", [at(0, 0)]), *running("b", [at(0, 1)]), *running("a", rack(1, 2)),
        *pods("claim", 1, first=1),
    ]  # fmt: skip
    plan = decide(racks(2, 2), groups, rows, priorityClasses=CLASSES)

    assert not plan.evictions
    assert why(plan, "claim")[0] == "TopologyHeld"


def test_reclaim_stays_within_a_rack() -> None:
    base = racks(2, 2)
    base["queues"] = [{"name": "q1", "weight": 1}, {"name": "q2", "weight": 1}]
    groups = [gang("a", 1, queue="q2"), gang("claim", 2, HARD_1)]
    rows = [*running("a", [at(0, 0), at(1, 0), at(1, 1), at(0, 1)]), *pods("claim", 2)]
    plan = decide(base, groups, rows)

    assert len(victims(plan)) == 2
    assert len(promised(plan)) == 1


def test_sub_groups_each_get_a_rack() -> None:
    policy = {
        "name": "part", "matchLabelKeys": ["part"], "subGroupSize": 2, "minSubGroups": 2,
        "topology": HARD_1,
    }  # fmt: skip
    groups = [gang("a", 1, **LOW), gang("claim", 4, HARD_2, subGroups=[policy], **HIGH)]
    rows = [
        *running("a", [place for k in range(4) for place in rack(k, 2)]),
        *pods("claim", 2, labels={"part": "0"}),
        *pods("claim", 2, first=2, labels={"part": "1"}),
    ]
    plan = decide(racks(4, 2, per_block=2), groups, rows, priorityClasses=CLASSES)

    at_rack = {task.key: place.rpartition("-")[2] for task, place in plan.pipelined.items()}
    assert at_rack["ns/claim-w-0"] == at_rack["ns/claim-w-1"]
    assert at_rack["ns/claim-w-2"] == at_rack["ns/claim-w-3"]
    assert len({int(name[1:]) // 2 for name in at_rack.values()}) == 1
    assert len(victims(plan)) == 4


def test_promised_rack_is_kept_in_the_next_cycle() -> None:
    """Another rack becomes better meanwhile, and the promise stands."""
    base = racks(2, 2)
    base["nodes"].append(node("spare"))
    groups = [gang("a", 1, **LOW), gang("claim", 2, HARD_1, **HIGH)]
    leaving = [{**row, "deleting": True} for row in running("a", rack(1, 2))]
    waiting = [{**row, "pipelinedBefore": at(1, k)} for k, row in enumerate(pods("claim", 2))]
    rows = [*running("a", [at(0, 0)], first=5), *leaving, *waiting]
    from tests.scheduler_cases import snapshot_of
    from tests.topology_clusters import decide_on

    case = {**base, "podGroups": groups, "pods": rows, "priorityClasses": CLASSES}
    plan = decide_on(snapshot_of(case))

    assert promised(plan) == {"r1"}


def test_whole_gangs_are_spared_on_request() -> None:
    groups = [gang("a", 4, **LOW), gang("claim", 4, HARD_1, **HIGH)]
    rows = [*running("a", rack(0)), *pods("claim", 4)]
    spared = replace(DEFAULT, action_arguments={"preempt": Arguments({"allowWholeBundle": False})})

    assert victims(decide(racks(1, 4), groups, rows, priorityClasses=CLASSES)) != []
    assert not decide(racks(1, 4), groups, rows, spared, priorityClasses=CLASSES).evictions


@pytest.mark.parametrize(("n_domains", "cleared"), [(1, set()), (2, {"r1"})])
def test_only_so_many_racks_are_tried(n_domains: int, cleared: set[str]) -> None:
    """The rack with most room comes first; its gang may not leave as a whole."""
    base = racks(2, 4)
    base["nodes"].append(node("spare"))
    groups = [gang("a", 2, **LOW), gang("b", 1, **LOW), gang("claim", 4, HARD_1, **HIGH)]
    rows = [
        *running("a", rack(0)[:2]), *running("b", [*rack(1), "spare"]), *pods("claim", 4),
    ]  # fmt: skip
    given = Arguments({"allowWholeBundle": False, "maxDomains": n_domains})
    config = replace(DEFAULT, action_arguments={"preempt": given})

    plan = decide(base, groups, rows, config, priorityClasses=CLASSES)

    assert promised(plan) == cleared
    assert len(victims(plan)) == 4 * len(cleared)


@pytest.mark.parametrize(
    ("text", "actions"),
    [("allocate, gangpreempt, gangreclaim", ("allocate", "preempt", "reclaim"))],
)
def test_volcanos_names_mean_ours(text: str, actions: tuple[str, ...]) -> None:
    body = {
        "actions": text,
        "configurations": [{"name": "gangpreempt", "arguments": {"maxDomains": 2}}],
    }
    parsed = parse(body, KNOWN)

    assert parsed.config.actions == actions
    assert parsed.config.arguments_of("preempt").number("maxDomains", 0) == 2
    assert parsed.warnings == ()
