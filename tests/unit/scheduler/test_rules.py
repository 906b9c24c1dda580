"""Rules of scheduling, one small cluster each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler_cases import Case, differences, run

Row = dict[str, Any]
HOOKS = (
    "Allocatable", "JobEnqueued", "JobOrder", "JobPipelined", "JobReady", "JobStarving",
    "NodeOrder", "Overused", "Predicate", "Preemptable", "Preemptive", "QueueOrder",
    "Reclaimable", "TaskOrder",
)  # fmt: skip


def plugin(name: str, *hooks: str, without: str = "") -> Row:
    return {"name": name, "enable": [h for h in hooks or HOOKS if h not in without.split()]}


STANDARD = [
    [
        plugin("priority"),
        plugin("gang"),
        plugin("conformance"),
        plugin("drf", without="Preemptable"),
        plugin("predicates"),
        plugin("proportion"),
    ]
]
OURS = [
    [
        plugin("priority"),
        plugin("gang", without="Preemptable Reclaimable"),
        plugin("conformance"),
        plugin("drf", without="Preemptable"),
        plugin("proportion"),
    ],
    [plugin("predicates"), plugin("nodeorder")],
]
PRIORITY_ONLY = [[plugin("priority"), plugin("predicates"), plugin("proportion")]]
NOBODY_STARVES = [[plugin("predicates"), plugin("conformance")]]
TREE = [
    [
        plugin("capacity", "Allocatable", "Hierarchy", "JobEnqueued", "Preemptive", "QueueOrder",
               "Reclaimable"),
        plugin("predicates", "Predicate"),
        plugin("gang", "JobStarving"),
    ]
]  # fmt: skip


def node(name: str, cpu: int) -> Row:
    return {"name": name, "allocatable": {"cpu": str(cpu), "memory": "64G", "pods": "40"}}


def queue(name: str, **more: Any) -> Row:
    return {"name": name, "weight": 1, **more}


def group(name: str, q: str = "q1", least: int = 1, phase: str = "Inqueue", **more: Any) -> Row:
    return {
        "namespace": "ns", "name": name, "queue": q, "minMember": least, "phase": phase, **more
    }  # fmt: skip


def pods(job: str, n: int = 1, on: str = "", cpu: str = "1", **more: Any) -> list[Row]:
    requests = {"cpu": cpu, "memory": "1G"} if cpu != "0" else {}
    row = {"namespace": "ns", "group": job, "requests": requests}
    row["phase"] = "Running" if on else "Pending"
    start = len(on)
    return [{**row, "name": f"{job}-{on or 'w'}-{start + k}", "node": on, **more} for k in range(n)]


LOW: Row = {"priorityClassName": "low"}
HIGH: Row = {"priorityClassName": "high"}

ONE_QUEUE = [queue("q1")]
TWO_QUEUES = [queue("q1"), queue("q2")]
FULL_OF_LOW = [group("a", least=2, phase="Running", **LOW), group("b", **HIGH)]

# title: actions, tiers, nodes, queues, groups, pods, what is expected
RULES: dict[str, tuple[Any, ...]] = {
    "a gang is preempted for only when all of it gets room": (
        ["preempt"], STANDARD, [node("n1", 2)], ONE_QUEUE,
        [group("a", phase="Running", **LOW), group("b", least=2, **HIGH)],
        [*pods("a", 2, "n1"), *pods("b", 2)],
        {"evicts": []},
    ),
    "the gang vote protects the minimum": (
        ["preempt"], STANDARD, [node("n1", 2)], ONE_QUEUE, FULL_OF_LOW,
        [*pods("a", 2, "n1"), *pods("b")],
        {"evicts": []},
    ),
    "without that vote a rigid gang leaves whole": (
        ["preempt"], OURS, [node("n1", 2)], ONE_QUEUE, FULL_OF_LOW,
        [*pods("a", 2, "n1"), *pods("b")],
        {"evictCount": 2, "pipelined": {"ns/b": ["n1"]}},
    ),
    "surplus is enough": (
        ["preempt"], STANDARD, [node("n1", 3)], ONE_QUEUE,
        [group("a", phase="Running", **LOW), group("b", least=2, **HIGH)],
        [*pods("a", 3, "n1"), *pods("b", 2)],
        {"evicts": ["ns/a-n1-3", "ns/a-n1-4"]},
    ),
    "with priority alone any missing replica starves": (
        ["preempt"], PRIORITY_ONLY, [node("n1", 2)], ONE_QUEUE,
        [group("a", least=0, phase="Running", **LOW), group("b", phase="Running", **HIGH)],
        [*pods("a", 1, "n1"), *pods("b", 1, "n1"), *pods("b")],
        {"evicts": ["ns/a-n1-2"]},
    ),
    "without a starving hook, no eviction": (
        ["preempt"], NOBODY_STARVES, [node("n1", 1)], ONE_QUEUE,
        [group("a", least=0, phase="Running", **LOW), group("b", **HIGH)],
        [*pods("a", 1, "n1"), *pods("b")],
        {"evicts": []},
    ),
    "a job that is not admitted does not preempt": (
        ["preempt"], STANDARD, [node("n1", 1)], ONE_QUEUE,
        [group("a", least=0, phase="Running", **LOW), group("b", phase="Pending", **HIGH)],
        [*pods("a", 1, "n1"), *pods("b")],
        {"evicts": []},
    ),
    "an important task replaces a lesser one of its own job": (
        ["preempt"], PRIORITY_ONLY, [node("n1", 1)], ONE_QUEUE,
        [group("a", least=0, phase="Running")],
        [*pods("a", 1, "n1", priority=1), *pods("a", priority=9)],
        {"evicts": ["ns/a-n1-2"], "pipelined": {"ns/a": ["n1"]}},
    ),
    "reclaim asks only queues that give back": (
        ["reclaim"], STANDARD, [node("n1", 2)], [queue("q1", reclaimable=False), queue("q2")],
        [group("a", least=0, phase="Running"), group("b", "q2")],
        [*pods("a", 2, "n1"), *pods("b")],
        {"evicts": []},
    ),
    "reclaim takes running pods only": (
        ["reclaim"], STANDARD, [node("n1", 2)], TWO_QUEUES,
        [group("a", least=0, phase="Running"), group("b", "q2")],
        [*pods("a", 2, "n1", phase="Pending"), *pods("b")],
        {"evicts": []},
    ),
    "reclaim takes what a gang needs": (
        ["reclaim"], STANDARD, [node("n1", 4)], TWO_QUEUES,
        [group("a", least=0, phase="Running"), group("b", "q2", 2)],
        [*pods("a", 4, "n1"), *pods("b", 2)],
        {"evictCount": 2, "pipelined": {"ns/b": ["n1"]}},
    ),
    "reclaim gives no more than is deserved": (
        ["reclaim"], STANDARD, [node("n1", 4)], TWO_QUEUES,
        [group("a", least=0, phase="Running"), group("b", "q2", 3)],
        [*pods("a", 4, "n1"), *pods("b", 3)],
        {"evicts": []},
    ),
    "reclaim takes a rigid gang that is larger than its queue's share": (
        ["enqueue", "allocate", "reclaim"], OURS, [node("n1", 4), node("n2", 4)], TWO_QUEUES,
        [group("a", least=8, phase="Running"), group("b", "q2", 4, "Pending")],
        [*pods("a", 4, "n1"), *pods("a", 4, "n2", labels={"at": "n2"}), *pods("b", 4)],
        {"evictCount": 8, "pipelined": {"ns/b": ["n1", "n2"]}},
    ),
    "pending best-effort tasks count as ready": (
        ["allocate", "backfill"], STANDARD, [node("n1", 2)], ONE_QUEUE, [group("a", least=2)],
        [*pods("a"), *pods("a", cpu="0", name="a-be-1")],
        {"bindCount": 2},
    ),
    "room that is held is given to no other job": (
        ["allocate"], STANDARD, [node("n1", 2)], ONE_QUEUE,
        [group("a", least=0, phase="Running"), group("b", least=2, **HIGH), group("c", **LOW)],
        [*pods("a", 1, "n1", deleting=True), *pods("b", 2), *pods("c")],
        {"binds": {}, "pipelined": {"ns/b": ["n1"]}, "notPipelined": ["ns/c"]},
    ),
    "surplus is filled in turns": (
        ["allocate"], STANDARD, [node("n1", 4)], ONE_QUEUE, [group("a"), group("b")],
        [*pods("a", 4), *pods("b", 4)],
        {"bindsPerGroup": {"ns/a": 2, "ns/b": 2}},
    ),
    "a guarantee is not lent": (
        ["allocate"], STANDARD, [node("n1", 4)],
        [queue("q1"), queue("q2", guarantee={"cpu": "2", "memory": "2G"})], [group("a")],
        pods("a", 4),
        {"bindCount": 2},
    ),
    "an admitted group keeps its quota": (
        ["enqueue"], STANDARD, [node("n1", 8)], [queue("q1", capability={"cpu": "4"})],
        [
            group("a", minResources={"cpu": "3"}),
            group("b", phase="Pending", minResources={"cpu": "2"}),
        ],
        [],
        {"phases": {"ns/a": "Inqueue", "ns/b": "Pending"}},
    ),
    "a gang does not wait for its own pods": (
        ["enqueue"], STANDARD, [node("n1", 8)], [queue("q1", capability={"cpu": "4"})],
        [group("a", least=4, phase="Pending", minResources={"cpu": "4"})],
        [*pods("a", 3, "n1"), *pods("a")],
        {"phases": {"ns/a": "Unknown"}},
    ),
    "a closed queue gets nothing": (
        ["allocate"], STANDARD, [node("n1", 3)], [queue("q1", state="Closed")], [group("a")],
        pods("a"),
        {"binds": {}},
    ),
    "a job in a queue with children stops everything": (
        ["enqueue", "allocate"], TREE, [node("n1", 8)],
        [queue("root"), queue("q1", parent="root"), queue("q11", parent="q1")],
        [group("a", "q1"), group("b", "q11")],
        [*pods("a"), *pods("b")],
        {"binds": {}},
    ),
    "the limit of a parent holds for its children together": (
        ["enqueue", "allocate"], TREE, [node("n1", 8)],
        [
            queue("root"), queue("q1", parent="root", capability={"cpu": "2"}),
            queue("q11", parent="q1"), queue("q12", parent="q1"),
        ],
        [group("a", "q11"), group("b", "q12"), group("c", "q12")],
        [*pods("a"), *pods("b"), *pods("c")],
        {"bindCount": 2},
    ),
    "free room is given by allocate even if reclaim comes first": (
        ["enqueue", "reclaim", "allocate"], TREE, [node("n1", 8)],
        [queue("root"), queue("q1", parent="root", deserved={"cpu": "4"})], [group("a", "q1")],
        pods("a"),
        {"bindCount": 1},
    ),
    "a gang that lost pods is unknown while it cannot be completed": (
        ["allocate"], STANDARD, [node("n1", 1)], ONE_QUEUE, [group("a", least=2, phase="Running")],
        [*pods("a", 1, "n1"), *pods("a")],
        {"binds": {}, "phases": {"ns/a": "Unknown"}},
    ),
    "a gang that lost all pods is pending again": (
        ["allocate"], STANDARD, [node("n1", 1)], ONE_QUEUE, [group("a", least=2, phase="Running")],
        pods("a", 2),
        {"binds": {}, "phases": {"ns/a": "Pending"}},
    ),
    "all pods done is completed": (
        ["allocate"], STANDARD, [node("n1", 1)], ONE_QUEUE, [group("a", least=2, phase="Running")],
        pods("a", 2, "n1", phase="Succeeded"),
        {"phases": {"ns/a": "Completed"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", RULES)
def test_rule(title: str) -> None:
    """One session decides as the rule's title says."""
    actions, tiers, nodes, queues, groups, members, expect = RULES[title]
    case: Case = {
        "actions": actions,
        "tiers": tiers,
        "priorityClasses": {"high": {"value": 1000}, "low": {"value": 10}},
        "nodes": nodes,
        "queues": queues,
        "podGroups": groups,
        "pods": members,
    }

    assert differences(case, expect, run(case)) == []
