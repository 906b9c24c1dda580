"""Elastic roles are shrunk instead of evicted; gangs leave whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api import codec
from swell.api.aitrainingjob import AITrainingJob
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from tests.scheduler_cases import Case, group_of, objects_of, pod_of


def cluster(
    *, policy: str = "Auto", minimum: int = 1, size: int = 4, cpu: str = "4"
) -> SchedulerObjects:
    """Returns one full node with an elastic job, and a more important gang of one."""
    case: Case = {
        "priorityClasses": {"low": {"value": 1}, "high": {"value": 10}},
        "nodes": [{"name": "n1", "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "20"}}],
        "queues": [{"name": "q", "weight": 1}],
        "podGroups": [group("elastic", minimum, "Running", "low"), group("claim", 1, "Inqueue")],
        "pods": [*(member("elastic", n, node="n1") for n in range(size)), pod("claim", 0)],
    }
    objects = objects_of(case)
    objects.training_jobs.append(training_job("elastic", policy, minimum, size))
    return objects


def group(name: str, minimum: int, phase: str, priority: str = "high") -> dict[str, Any]:
    return {
        "namespace": "ns",
        "name": name,
        "queue": "q",
        "minMember": minimum,
        "phase": phase,
        "priorityClassName": priority,
    }


def pod(job: str, index: int, node: str = "", cpu: str = "1") -> dict[str, Any]:
    return {
        "namespace": "ns",
        "name": f"{job}-worker-{index}",
        "group": job,
        "phase": "Running" if node else "Pending",
        "node": node,
        "requests": {"cpu": cpu, "memory": "1Gi"},
    }


def member(job: str, index: int, node: str = "") -> dict[str, Any]:
    labels = {
        "TrainingJobName": job,
        "TrainingJobReplicaName": "worker",
        "TrainingJobReplicaIndex": str(index),
    }
    return {**pod(job, index, node), "labels": labels, "role": "worker"}


def training_job(name: str, policy: str, minimum: int, size: int) -> AITrainingJob:
    sizes = {"replicas": size, "minReplicas": minimum, "maxReplicas": size}
    return codec.convert(
        {
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"replicaSpecs": {"worker": {**sizes, "edlPolicy": policy}}},
            "status": {"targetReplicas": {"worker": size}},
        },
        AITrainingJob,
    )


def decide(objects: SchedulerObjects) -> dict[str, Any]:
    return answer(plan_schedule(objects))


def test_shrink_takes_the_highest_index() -> None:
    """Surplus of an Auto role leaves by a smaller target, not by an eviction."""
    decided = decide(cluster())

    assert decided["shrinks"] == {"ns/elastic": {"worker": 3}}
    assert decided["evictions"] == []
    assert decided["pipelined"] == {"ns/claim-worker-0": "n1"}


def test_trainers_of_a_job_leave_the_highest_index_first() -> None:
    """The index of an Indexed Job's pod comes from its label, not from its generated name."""
    objects = cluster()
    objects.training_jobs.clear()
    objects.pods[:4] = [
        pod_of(
            {
                **pod("elastic", index, "n1"),
                "name": f"elastic-trainer-{index}-xyz",
                "labels": {"batch.kubernetes.io/job-completion-index": str(index)},
            }
        )
        for index in (8, 9, 10, 11)
    ]

    decided = decide(objects)

    assert [e["pod"] for e in decided["evictions"]] == ["ns/elastic-trainer-11-xyz"]


@pytest.mark.parametrize("policy", ["Manual", "Never"])
def test_shrink_never_touches_other_policies(policy: str) -> None:
    """A role that users size is evicted like any other surplus."""
    decided = decide(cluster(policy=policy))

    assert "shrinks" not in decided
    assert [e["pod"] for e in decided["evictions"]] == ["ns/elastic-worker-3"]


def test_shrink_takes_a_suffix_to_reach_the_node() -> None:
    """To free a node that has index 2, index 3 leaves too, wherever it is."""
    objects = cluster(size=3)
    objects.nodes += objects_of(
        {"nodes": [{"name": "n2", "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}]}
    ).nodes
    far = pod_of(member("elastic", 3, node="n2"))
    wide = pod_of(pod("claim", 0, cpu="2"))
    objects.pods = [p for p in objects.pods if "claim" not in p.metadata.name] + [far, wide]
    objects.training_jobs = [training_job("elastic", "Auto", 1, 4)]

    decided = decide(objects)

    assert decided["shrinks"] == {"ns/elastic": {"worker": 2}}
    assert decided["pipelined"] == {"ns/claim-worker-0": "n1"}


def test_shrink_stops_at_the_minimum_of_the_role() -> None:
    """Below the minimum of the role the job is a victim like any other: the whole of it."""
    objects = cluster(minimum=4)

    decided = decide(objects)

    assert "shrinks" not in decided
    assert len(decided["evictions"]) == 4


def test_shrink_leaves_a_role_with_a_succeeded_pod_alone() -> None:
    """A pod that has succeeded freezes its role."""
    objects = cluster(size=3, cpu="3")
    done = {**member("elastic", 3), "phase": "Succeeded"}
    objects.pods.append(pod_of(done))
    objects.training_jobs = [training_job("elastic", "Auto", 1, 4)]

    decided = decide(objects)

    assert "shrinks" not in decided
    assert len(decided["evictions"]) == 1


def test_pod_at_its_roles_target_is_leaving() -> None:
    """A pod at or above its role's target counts as leaving, whatever lowered the target."""
    objects = cluster()
    objects.training_jobs = [
        codec.convert(
            {
                "metadata": {"name": "elastic", "namespace": "ns"},
                "spec": {"replicaSpecs": {"worker": {"replicas": 4, "edlPolicy": "Manual"}}},
                "status": {"targetReplicas": {"worker": 3}},
            },
            AITrainingJob,
        )
    ]

    decided = decide(objects)

    assert decided["evictions"] == []
    assert decided["pipelined"] == {"ns/claim-worker-0": "n1"}


def test_rigid_gang_leaves_whole() -> None:
    """A gang at its minimum loses all of its pods, also those on other nodes, or none."""
    objects = cluster(policy="Never", minimum=4)

    decided = decide(objects)

    assert [e["pod"] for e in decided["evictions"]] == [f"ns/elastic-worker-{n}" for n in range(4)]
    assert {e["for"] for e in decided["evictions"]} == {"ns/claim"}


def test_rigid_gang_with_a_protected_pod_stays() -> None:
    """One pod that must not be evicted protects the whole gang."""
    objects = cluster(policy="Never", minimum=4)
    first = pod_of({**member("elastic", 0, node="n1"), "preemptable": False})
    objects.pods[0] = first

    decided = decide(objects)

    assert decided["evictions"] == []
    assert decided["podGroups"]["ns/claim"]["reason"] == "NotEnoughResources"


def test_surplus_goes_before_whole_gangs() -> None:
    """A job with pods to spare gives one, though a smaller gang could be evicted whole."""
    objects = cluster(policy="Never", minimum=2, size=3)
    objects.groups.append(group_of(group("pair", 1, "Running", "low")))
    objects.pods.append(pod_of(pod("pair", 0, node="n1")))

    decided = decide(objects)

    assert [e["pod"] for e in decided["evictions"]] == ["ns/elastic-worker-2"]


def test_shrink_goes_before_gaps_on_a_better_node() -> None:
    """Indexes 0 and 3 are on one node: the second of the gang goes to the other, for index 2."""
    objects = cluster(minimum=2)
    nodes = [
        {"name": name, "allocatable": {"cpu": "2", "memory": "64Gi", "pods": "9"}}
        for name in ("n1", "n2")
    ]
    at = {0: "n1", 1: "n2", 2: "n2", 3: "n1"}
    case: Case = {
        "nodes": nodes,
        "podGroups": [group("elastic", 2, "Running", "low"), group("claim", 2, "Inqueue")],
    }
    objects.nodes, objects.groups = objects_of(case).nodes, objects_of(case).groups
    members = [pod_of(member("elastic", index, node=node)) for index, node in at.items()]
    objects.pods = [*members, *(pod_of(pod("claim", index)) for index in range(2))]

    decided = decide(objects)

    assert decided["shrinks"] == {"ns/elastic": {"worker": 2}}
    assert decided["evictions"] == []
    assert set(decided["pipelined"].values()) == {"n1", "n2"}
