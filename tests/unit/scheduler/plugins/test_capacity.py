"""Queues below a parent at its limit take back from each other (plugin capacity with hierarchy)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.scheduler_cases import Case, Outcome, run

HOOKS = ["Allocatable", "Hierarchy", "JobEnqueued", "Preemptive", "QueueOrder", "Reclaimable"]
GANG = ["JobStarving", "JobPipelined", "JobReady"]
RECLAIM = ["enqueue", "reclaim", "allocate"]


def _tiers(**args: Any) -> list[Any]:
    return [
        [
            {"name": "capacity", "enable": HOOKS, "args": args},
            {"name": "predicates", "enable": ["Predicate"]},
            {"name": "gang", "enable": GANG},
            {"name": "priority", "enable": ["Preemptable"]},
            {"name": "conformance", "enable": ["Reclaimable", "Preemptable"]},
        ]
    ]


def _queue(name: str, parent: str = "root", cap: int = 0, deserved: int = 0, **rest: Any) -> Any:
    amounts = {
        field: {"cpu": str(n)} for field, n in (("capability", cap), ("deserved", deserved)) if n
    }
    return {"name": name, "weight": 1, "parent": parent, **amounts, **rest}


def _case(queues: list[Any], nodes: int = 1, cpus: int = 16, **rest: Any) -> Case:
    allocatable = {"cpu": str(cpus), "memory": "64Gi", "pods": "50"}
    return {
        "actions": RECLAIM,
        "tiers": _tiers(),
        "nodes": [{"name": f"n{at}", "allocatable": allocatable} for at in range(nodes)],
        "queues": [{"name": "root", "weight": 1}, *queues],
        "podGroups": [],
        "pods": [],
        **rest,
    }


def _add(
    case: Case,
    name: str,
    queue: str,
    *nodes: str,
    cpu: int = 1,
    phase: str = "",
    n: int = 0,
    minimum: int = 1,
    **group: Any,
) -> None:
    """Adds a group with a running pod on each of the nodes, or with n pending ones."""
    case["podGroups"].append(
        {
            "namespace": "ns",
            "name": name,
            "queue": queue,
            "minMember": minimum,
            "phase": phase or ("Running" if nodes else "Inqueue"),
            **group,
        }
    )
    for index, node in enumerate(nodes or [""] * n):
        pod = {"namespace": "ns", "name": f"{name}-{index}", "group": name}
        pod |= {"phase": "Running", "node": node} if node else {"phase": "Pending"}
        case["pods"].append({**pod, "requests": {"cpu": str(cpu)}})


def _evicted(outcome: Outcome) -> list[str]:
    return sorted(eviction.task.key for eviction in outcome.plan.evictions)


def _pipelined(outcome: Outcome) -> list[str]:
    return sorted(task.key for task in outcome.plan.pipelined)


def test_leaf_takes_back_from_its_sibling_below_a_full_parent() -> None:
    """The parent is at its limit; what its other child gives back is room below that limit."""
    case = _case([_queue("p", cap=2), _queue("a", "p", deserved=1), _queue("b", "p", deserved=1)])
    _add(case, "b1", "b", "n0")
    _add(case, "b2", "b", "n0")
    _add(case, "a1", "a", n=1)

    outcome = run(case)

    assert _evicted(outcome) == ["ns/b2-0"]
    assert _pipelined(outcome) == ["ns/a1-0"]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_room_is_freed_at_every_shared_level(depth: int) -> None:
    """Full ancestors at any depth are freed by a victim that is below all of them."""
    line = ["root", *(f"level{at}" for at in range(depth))]
    queues = [_queue(name, above, cap=4) for above, name in pairwise(line)]
    queues += [_queue("a", line[-1], deserved=2), _queue("b", line[-1], deserved=2)]
    case = _case(queues)
    _add(case, "b1", "b", *["n0"] * 4)
    _add(case, "a1", "a", n=2, minimum=2)

    outcome = run(case)

    assert len(_evicted(outcome)) == 2
    assert _pipelined(outcome) == ["ns/a1-0", "ns/a1-1"]


def test_victims_outside_the_full_parent_free_nothing() -> None:
    """A foreign queue above what it deserves is not robbed for a parent that stays full."""
    case = _case(
        [
            _queue("p", cap=2, deserved=2),
            _queue("a", "p", deserved=2),
            _queue("b", "p", deserved=1, reclaimable=False),
            _queue("foreign", deserved=1),
        ],
        cpus=4,
    )
    _add(case, "b1", "b", *["n0"] * 2)
    _add(case, "f1", "foreign", *["n0"] * 2)
    _add(case, "a1", "a", n=1)

    outcome = run(case)

    assert _evicted(outcome) == []
    assert _pipelined(outcome) == []


def test_sibling_gives_quota_and_no_foreign_queue_is_robbed_as_well() -> None:
    """One victim of the sibling frees both the limit and the node: the foreign queue keeps all."""
    case = _case(
        [
            _queue("p", cap=2, deserved=2),
            _queue("a", "p", deserved=1),
            _queue("b", "p", deserved=1),
            _queue("foreign", deserved=1),
        ],
        cpus=4,
    )
    _add(case, "f1", "foreign", *["n0"] * 2)
    _add(case, "b1", "b", *["n0"] * 2)
    _add(case, "a1", "a", n=1)

    outcome = run(case)

    assert [key.startswith("ns/b1") for key in _evicted(outcome)] == [True]


def test_quota_is_freed_by_victims_on_other_nodes() -> None:
    """Nodes have room and only the limit is short: small victims anywhere make room below it."""
    case = _case(
        [_queue("p", cap=4), _queue("a", "p", deserved=3), _queue("b", "p", deserved=1)],
        nodes=4,
        cpus=4,
    )
    _add(case, "b1", "b", "n0", "n1", "n2", "n3")
    _add(case, "a1", "a", n=1, cpu=3)

    outcome = run(case)

    assert len(_evicted(outcome)) == 3
    assert _pipelined(outcome) == ["ns/a1-0"]


def test_quota_is_freed_for_a_node_without_victims() -> None:
    """The pod fits only on an idle node, and the limit of the parent is freed elsewhere."""
    case = _case([_queue("p", cap=2), _queue("a", "p", deserved=2), _queue("b", "p")], cpus=1)
    case["nodes"].append({"name": "big", "allocatable": {"cpu": "2", "memory": "64Gi", "pods": 9}})
    case["nodes"].append({**case["nodes"][0], "name": "n1"})
    _add(case, "b1", "b", "n0", "n1")
    _add(case, "a1", "a", n=1, cpu=2)

    outcome = run(case)

    assert _evicted(outcome) == ["ns/b1-0", "ns/b1-1"]
    assert set(outcome.plan.pipelined.values()) == {"big"}


def test_victim_without_the_scarce_resource_stays() -> None:
    """Only the parent's GPUs are used up: a sibling's pod that holds none of them is left alone."""
    gpu = "nvidia.com/gpu"
    limit = {"capability": {gpu: "1", "cpu": "9"}}
    case = _case(
        [
            {"name": "p", "weight": 1, "parent": "root", **limit},
            {"name": "a", "weight": 1, "parent": "p", "deserved": {gpu: "1", "cpu": "4"}},
            {"name": "b", "weight": 1, "parent": "p"},
        ],
        nodes=3,
    )
    for node in case["nodes"]:
        node["allocatable"][gpu] = "4"
    _add(case, "without", "b", "n0")
    _add(case, "scarce", "b", "n1")
    case["pods"][-1]["requests"][gpu] = "1"
    _add(case, "a1", "a", n=1)
    case["pods"][-1]["requests"][gpu] = "1"

    outcome = run(case)

    assert _evicted(outcome) == ["ns/scarce-0"]
    assert _pipelined(outcome) == ["ns/a1-0"]


def test_leaf_at_its_own_limit_takes_nothing() -> None:
    """No victim of another queue frees room within the leaf's own limit."""
    case = _case(
        [_queue("p", cap=3), _queue("a", "p", cap=1, deserved=1), _queue("b", "p", deserved=1)]
    )
    _add(case, "a0", "a", "n0")
    _add(case, "b1", "b", "n0", "n0")
    _add(case, "a1", "a", n=1)

    assert _evicted(run(case)) == []


def test_sibling_within_its_entitlement_keeps_all() -> None:
    """A full parent alone is no reason: the sibling must hold more than it deserves."""
    case = _case([_queue("p", cap=2), _queue("a", "p", deserved=1), _queue("b", "p", deserved=2)])
    _add(case, "b1", "b", "n0", "n0")
    _add(case, "a1", "a", n=1)

    assert _evicted(run(case)) == []


def test_freed_quota_is_kept_for_the_preemptor() -> None:
    """Allocate, which comes next, gives the freed quota to no other job of the same parent."""
    case = _case([_queue("p", cap=2), _queue("a", "p", deserved=1), _queue("b", "p", deserved=1)])
    _add(case, "b1", "b", "n0", "n0")
    _add(case, "b2", "b", n=1)
    _add(case, "a1", "a", n=1)

    outcome = run(case)

    assert _pipelined(outcome) == ["ns/a1-0"]
    assert outcome.plan.binds == {}


def test_job_is_preempted_in_a_queue_at_its_limit_whatever_node_it_is_on() -> None:
    """Within a full queue, too, victims on other nodes make room below the limit."""
    case = _case([_queue("p", cap=4), _queue("a", "p")], nodes=4, cpus=4)
    case["priorityClasses"] = {"high": {"value": 10}, "low": {"value": 1}}
    case["actions"] = ["enqueue", "allocate", "preempt"]
    _add(case, "low", "a", "n0", "n1", "n2", "n3", priorityClassName="low")
    _add(case, "high", "a", n=1, cpu=3, priorityClassName="high")

    outcome = run(case)

    assert len(_evicted(outcome)) == 3
    assert _pipelined(outcome) == ["ns/high-0"]


@pytest.mark.parametrize("counts", [True, False])
def test_admission_counts_what_siblings_would_give_back(counts: bool) -> None:
    """With countClaimable a full parent admits a job that its sibling has to make room for."""
    case = _case([_queue("p", cap=2), _queue("a", "p", deserved=1), _queue("b", "p", deserved=1)])
    case["actionArgs"] = {"enqueue": {"countClaimable": counts}}
    _add(case, "b1", "b", "n0", minResources={"cpu": "1"})
    _add(case, "b2", "b", "n0", minResources={"cpu": "1"})
    _add(case, "a1", "a", n=1, phase="Pending", minResources={"cpu": "1"})

    outcome = run(case)

    assert _evicted(outcome) == (["ns/b2-0"] if counts else [])
    assert outcome.plan.groups["ns/a1"].phase.value == ("Inqueue" if counts else "Pending")


def test_admission_counts_no_victims_outside_the_full_parent() -> None:
    """What a foreign queue would give back is no room below this parent."""
    case = _case(
        [
            _queue("p", cap=2),
            _queue("a", "p", deserved=1),
            _queue("b", "p", deserved=2),
            _queue("foreign", deserved=1),
        ]
    )
    case["actionArgs"] = {"enqueue": {"countClaimable": True}}
    _add(case, "b1", "b", "n0", "n0", minimum=2, minResources={"cpu": "2"})
    _add(case, "f1", "foreign", "n0", "n0", minimum=2, minResources={"cpu": "2"})
    _add(case, "a1", "a", n=1, phase="Pending", minResources={"cpu": "1"})

    assert run(case).plan.groups["ns/a1"].phase.value == "Pending"
