"""The explanation of a group that waits: one small cluster for each answer."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.scheduler.explain.explain import explain
from swell.scheduler.explain.explanation import Explanation, GroupStanding, Remedy
from swell.scheduler.explain.positions import QueuePosition, queue_positions
from swell.scheduler.plan import SchedulerObjects
from tests.scheduler_cases import config_of, load, objects_of

Row = dict[str, Any]
CLASSES = {"low": {"value": 1}, "high": {"value": 9}}


def node(name: str, cpu: int = 4, **more: Any) -> Row:
    return {"name": name, "allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "40"}, **more}


def group(name: str, least: int = 1, queue: str = "q", phase: str = "Inqueue", **more: Any) -> Row:
    return {
        "namespace": "ns", "name": name, "queue": queue, "minMember": least, "phase": phase, **more
    }  # fmt: skip


def pods(job: str, n: int, on: str = "", cpu: str = "1", **more: Any) -> list[Row]:
    row = {"namespace": "ns", "group": job, "requests": {"cpu": cpu, "memory": "1Gi"}, "node": on}
    row["phase"] = "Running" if on else "Pending"
    return [{**row, "name": f"{job}-w-{on}{index}", **more} for index in range(n)]


def world(**rows: Any) -> SchedulerObjects:
    rows.setdefault("queues", [{"name": "q"}])
    return objects_of({"priorityClasses": CLASSES, **rows})


def explained(objects: SchedulerObjects, name: str = "new") -> Explanation:
    found = explain(objects, f"ns/{name}")
    assert found is not None
    return found


def advice(found: Explanation) -> list[str]:
    return [one.text for one in found.advice]


def test_positions_are_those_of_the_explanations() -> None:
    """By priority and age, in each queue; groups that have started have none."""
    found = world(
        nodes=[node("n1")],
        queues=[{"name": "q"}, {"name": "r"}],
        podGroups=[
            group("runs", phase="Running"), group("late"), group("alone", queue="r"),
            group("urgent", priorityClassName="high"), group("early"),
        ],
        pods=[
            *pods("runs", 1, "n1"),
            *(pods(name, 1, cpu="9")[0] for name in ("late", "urgent", "alone", "early")),
        ],
    )  # fmt: skip

    positions = queue_positions(found)

    assert positions["ns/urgent"] == QueuePosition("q", 1, 3)
    assert positions["ns/alone"].cell == "1/1"
    assert "ns/runs" not in positions
    for name, one in positions.items():
        queue = explained(found, name.removeprefix("ns/")).queue
        assert queue is not None
        assert (queue.name, queue.position, queue.n_waiting) == one


def test_no_room_is_explained_with_numbers_and_holders() -> None:
    """The request, the nodes by reason of refusal, the holders, and the advice that was tried."""
    found = explained(
        world(
            nodes=[node("n1"), node("n2"), node("n3", labels={"a": "b"})],
            podGroups=[
                group("new", 3), group("old", 3, phase="Running"), group("tiny", phase="Running"),
            ],
            pods=[
                *pods("new", 3, cpu="3"), *pods("old", 3, "n1"), *pods("old", 3, "n2"),
                *pods("tiny", 1, "n1"),
            ],
        )
    )  # fmt: skip
    (one,) = found.classes

    assert found.standing is GroupStanding.WAITING
    assert found.reason == "NotEnoughResources"
    assert found.asks == {"cpu": "9", "memory": "3Gi"}
    assert (one.n_pods, one.each, one.n_nodes) == (3, {"cpu": "3", "memory": "1Gi"}, 3)
    assert (one.n_nodes_fit, one.n_slots) == (1, 1)
    assert [(r.n_nodes, r.resource) for r in one.refusals] == [(2, "cpu")]
    assert [(h.name, h.n_pods, h.holds) for h in found.holders] == [
        ("ns/old", 6, {"cpu": "6"}),
        ("ns/tiny", 1, {"cpu": "1"}),
    ]
    assert found.holders[0].text == "its priority 0 is not below 0"
    assert advice(found) == [
        "it starts when this is gone: ns/old",
        "with a priority above 0 it would be given their room",
        "with a minimum of 1 pod it could start now",
        "2 more nodes like n1 (cpu 4, memory 64Gi)",
    ]


def test_several_jobs_have_to_end() -> None:
    """Where no single job is enough, the fewest of the largest jobs are named."""
    found = explained(
        world(
            nodes=[node("n1", 2), node("n2", 2), node("n3", 2)],
            podGroups=[group("new", 2), *(group(f"j{i}", phase="Running") for i in "123")],
            pods=[
                *pods("new", 2, cpu="2"), *pods("j1", 1, "n1", cpu="2"),
                *pods("j2", 1, "n2", cpu="2"), *pods("j3", 1, "n3", cpu="1"),
            ],
        )
    )  # fmt: skip

    assert "it starts when all of these are gone: ns/j1, ns/j2" in advice(found)


def test_room_that_others_are_given_now_is_not_counted_on() -> None:
    """With one job gone the important job comes first, before those that start now."""
    found = explained(
        world(
            nodes=[node("n1", 8), node("n2", 8)],
            podGroups=[
                group("new", 3, priorityClassName="high"), group("next", 2),
                group("old", 2, phase="Running"),
            ],
            pods=[
                *pods("new", 3, cpu="4"), *pods("next", 2, cpu="4"), *pods("old", 2, "n1", cpu="4")
            ],
        )
    )  # fmt: skip

    assert "it starts when this is gone: ns/old" in advice(found)


def test_pod_larger_than_every_node_is_explained() -> None:
    """No job that ends would help, so none is named."""
    found = explained(
        world(
            nodes=[node("n1"), node("n2", 16, taints=[{"key": "k", "effect": "NoSchedule"}])],
            podGroups=[group("new"), group("old", phase="Running")],
            pods=[*pods("new", 1, cpu="8"), *pods("old", 1, "n1")],
        )
    )

    assert advice(found) == ["a pod asks for cpu 8, and no node it may use has more than 4"]


def test_pod_that_no_node_may_take_is_explained() -> None:
    """The reasons are counted by nodes."""
    found = explained(
        world(
            nodes=[node("n1"), node("n2")],
            podGroups=[group("new")],
            pods=pods("new", 1, nodeSelector={"gpu": "yes"}),
        )
    )

    assert advice(found) == ["none of 2 nodes may take its pods: 2 not matching the node selector"]


def test_quota_is_explained_with_the_limit() -> None:
    """Queue, resource and amounts are named; the holders are the jobs of the queue."""
    found = explained(
        world(
            nodes=[node("n1", 16)],
            queues=[{"name": "q", "capability": {"cpu": "4"}}, {"name": "p"}],
            podGroups=[
                group("new", 2, phase="Pending", minResources={"cpu": "2"}),
                group("old", 3, phase="Running", minResources={"cpu": "3"}),
                group("other", phase="Running", queue="p"),
            ],
            pods=[*pods("new", 2), *pods("old", 3, "n1"), *pods("other", 1, "n1")],
        )
    )
    assert found.queue is not None
    (limit,) = found.queue.limits

    assert found.reason == "QueueQuotaExceeded"
    assert (limit.queue, limit.resource, limit.held, limit.asked, limit.allowed) == (
        "q", "cpu", "3", "2", "4",
    )  # fmt: skip
    assert [holder.name for holder in found.holders] == ["ns/old"]
    assert advice(found)[:2] == [
        "raise the capability of queue q: cpu 5",
        "it starts when this is gone: ns/old",
    ]


def test_queue_that_deserves_too_little_is_advised_a_weight_that_is_enough() -> None:
    """There is room, and only the share of the queue is in the way."""
    found = explained(
        world(
            nodes=[node("n1", 12)],
            queues=[{"name": "q", "weight": 1}, {"name": "p", "weight": 1}],
            podGroups=[group("new", 4), group("rival", 12, queue="p")],
            pods=[*pods("new", 4, cpu="2"), *pods("rival", 12)],
        )
    )

    assert found.reason == "QueueQuotaExceeded"
    assert advice(found)[0] == "with a weight of 2 queue q would deserve enough"


def test_closed_queue_is_explained_with_the_one_to_open() -> None:
    """A queue that was closed by its parent opens with the parent."""
    marked = {"volcano.sh/closed-by-parent": "true"}
    objects = world(
        nodes=[node("n1")],
        queues=[
            {"name": "top", "state": "Closed"},
            {"name": "q", "parent": "top", "state": "Closing", "annotations": marked},
        ],
        podGroups=[group("new", phase="Pending", minResources={"cpu": "1"})],
        pods=pods("new", 1),
    )
    found = explained(objects)

    assert found.reason == "QueueClosed"
    assert [one.command for one in found.advice] == ["swell queue open top"]


def test_missing_queue_and_missing_pods_are_explained() -> None:
    """The advice says what creates them."""
    objects = world(
        nodes=[node("n1")],
        queues=[{"name": "research"}],
        podGroups=[group("lost", queue="reserch"), group("few", 3, queue="research")],
        pods=[*pods("lost", 1), *pods("few", 1)],
    )

    assert [one.command for one in explained(objects, "lost").advice] == [
        "", "swell queue create reserch",
    ]  # fmt: skip
    assert advice(explained(objects, "few")) == [
        "2 of its pods have not been created; what made the group says why"
    ]


def test_room_that_is_being_made_is_explained_with_its_victims() -> None:
    """The group gets its nodes as soon as its victims are gone."""
    found = explained(
        world(
            nodes=[node("n1")],
            podGroups=[
                group("new", priorityClassName="high"),
                group("old", phase="Running", priorityClassName="low"),
            ],
            pods=[*pods("new", 1, cpu="4"), *pods("old", 1, "n1", cpu="4")],
        )
    )

    assert found.standing is GroupStanding.MAKING_ROOM
    assert found.victims == ("pod ns/old-w-n10",)


def test_elastic_job_can_be_shrunk() -> None:
    """Each holder is explained by what may be done to it: shrunk, evicted or nothing."""
    objects = world(
        nodes=[node("n1", 8)],
        queues=[{"name": "q"}, {"name": "p", "reclaimable": False}],
        podGroups=[
            group("new", 5, priorityClassName="high"),
            group("flex", phase="Running", priorityClassName="low"),
            group("rigid", 2, phase="Running", priorityClassName="low"),
            group("fixed", 2, phase="Running", queue="p"),
        ],
        pods=[
            *pods("new", 5, cpu="2"),
            *(_trainer("flex", index) for index in range(3)),
            *pods("rigid", 2, "n1"),
            *pods("fixed", 2, "n1"),
        ],
    )
    objects.training_jobs.append(convert(FLEX, AITrainingJob))
    found = explained(objects)

    assert {holder.name: (holder.remedy, holder.text) for holder in found.holders} == {
        "ns/flex": (Remedy.SHRINK, "can be shrunk: t to 1"),
        "ns/rigid": (Remedy.EVICT, "can be evicted as a whole: 2 pods"),
        "ns/fixed": (Remedy.NONE, "queue p is not reclaimable"),
    }


FLEX: Row = {
    "metadata": {"name": "flex", "namespace": "ns"},
    "spec": {
        "replicaSpecs": {
            "t": {"replicas": 3, "minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Auto"}
        }
    },
    "status": {"targetReplicas": {"t": 3}},
}


def _trainer(job: str, index: int) -> Row:
    labels = {
        "TrainingJobName": job, "TrainingJobReplicaName": "t", "TrainingJobReplicaIndex": str(index)
    }  # fmt: skip
    (row,) = pods(job, 1, "n1", labels=labels, role="t")
    return {**row, "name": f"{job}-t-{index}"}


def test_groups_that_do_not_wait_have_no_reason() -> None:
    """Running, finished, placed but not running, and with room in the next cycle."""
    objects = world(
        nodes=[node("n1", 8)],
        podGroups=[
            group("runs", 2, phase="Running"), group("done"), group("placed"), group("next"),
        ],
        pods=[
            *pods("runs", 2, "n1"), *pods("done", 1, "n1", phase="Succeeded"),
            *pods("placed", 1, "n1", phase="Pending"), *pods("next", 1),
        ],
    )  # fmt: skip
    standings = {
        name: explained(objects, name).standing for name in ("runs", "done", "placed", "next")
    }

    assert standings == {
        "runs": GroupStanding.RUNNING,
        "done": GroupStanding.COMPLETED,
        "placed": GroupStanding.STARTING,
        "next": GroupStanding.STARTING,
    }
    assert explained(objects, "runs").reason == ""


def test_surplus_that_waits_is_explained_while_the_job_runs() -> None:
    """The gang has its minimum; for the rest of its pods there is no room."""
    found = explained(
        world(
            nodes=[node("n1", 3)],
            podGroups=[group("new", 2, phase="Running")],
            pods=[*pods("new", 2, "n1"), *pods("new", 2, cpu="2")],
        )
    )

    assert found.standing is GroupStanding.RUNNING
    assert (found.reason, found.classes[0].n_pods) == ("NotEnoughResources", 2)
    assert advice(found) == ["1 more node like n1 (cpu 3, memory 64Gi)"]


def test_nothing_is_said_of_a_group_that_is_not_there() -> None:
    """There is no explanation of a group that does not exist."""
    assert explain(world(nodes=[node("n1")]), "ns/missing") is None


CASES = [case for case in load(units=False) if "stub" not in str(case["tiers"])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_every_group_of_the_recorded_cases_is_explained(case: Row) -> None:
    """Each group that waits has a reason, and no other has one, with any configuration."""
    objects, config = objects_of(case), config_of(case)
    for one in objects.groups:
        found = explain(objects, str(one.metadata.key), config)
        assert found is not None
        is_waiting = found.standing in {GroupStanding.WAITING, GroupStanding.MAKING_ROOM}
        has_surplus = bool(found.classes)

        assert bool(found.reason) == (is_waiting or has_surplus)
