"""The fulfillment policy at its limits: each threshold in both directions, and who takes part."""

from __future__ import annotations

from fractions import Fraction

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.meta import Body
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.policies.dry_run import CandidateRole, sorted_jobs
from swell.autoscaler.policies.interface import Parameters, SizeReason
from tests.autoscaler_cases import (
    a_group,
    a_job,
    a_node,
    a_pod,
    a_role,
    a_trainer,
    a_training_job,
    decide,
    look,
    sizes,
)


def test_default_load_is_97_percent() -> None:
    """Of 100 cpus 97 may be requested by default."""
    role = a_role(1, 200, cpu="1")
    snapshot = look(a_node("n", cpu=100, memory="1Gi"), a_job("a", t=role))

    assert Parameters().max_load == Fraction(97, 100)
    assert sizes(decide(snapshot)) == {"a/t": 97}


@pytest.mark.parametrize(
    ("load", "size"), [("1", 8), ("0.5", 4), ("0.49", 3)], ids=["all", "half", "just below half"]
)
def test_memory_has_the_threshold_of_cpu(load: str, size: int) -> None:
    """Memory requested stays within the same share of its total, in bytes."""
    role = a_role(1, 20, memory="1Gi")
    snapshot = look(a_node("n", cpu=1, memory="8Gi"), a_job("a", t=role))

    assert sizes(decide(snapshot, load)) == {"a/t": size}


@pytest.mark.parametrize(
    ("amounts", "load", "size"),
    [
        ({"cpu": "1"}, "1", 4),
        ({"cpu": "1"}, "0.75", 3),
        ({"memory": "1Gi"}, "1", 4),
        ({"memory": "1Gi"}, "0.75", 3),
        ({"gpu": 1}, "1", 4),
        ({"gpu": 1}, "0.75", 4),
    ],
    ids=["cpu", "cpu above load", "memory", "memory above load", "gpu", "gpus know no load"],
)
def test_each_resource_that_is_over_committed_shrinks(amounts: Body, load: str, size: int) -> None:
    """Down to the share of cpu and of memory, and to the number of GPUs, and no further."""
    role = a_role(1, 9, **amounts)
    node = a_node("n", cpu=4, memory="4Gi", gpu=4)
    pods = [a_pod("a", "t", index, "n" if index < 4 else "", **amounts) for index in range(7)]

    assert sizes(decide(look(node, a_job("a", targets={"t": 7}, t=role), *pods), load)) == {
        "a/t": size
    }


def test_job_that_is_being_deleted_is_not_considered() -> None:
    """A job that is being deleted is not resized."""
    body = {
        "metadata": {"name": "a", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicaSpecs": {"t": a_role(1, 4)}},
        "status": {"phase": "Running", "targetReplicas": {"t": 1}},
    }

    assert decide(look(a_node("n", cpu=8), convert(body, AITrainingJob))) == {}


def test_training_job_with_a_succeeded_index_is_not_considered() -> None:
    """The last trainers of a finishing job are not followed by new ones, in either interface."""
    node = a_node("n", cpu=8, memory="8Gi")
    job = a_training_job("o", 1, 4, target=2, cpu="1")
    done = a_trainer("o", 0, "n", phase="Succeeded", cpu="1")

    assert sizes(decide(look(node, job))) == {"o/trainer": 4}
    assert decide(look(node, job, done)) == {}


def test_hopeless_job_is_no_candidate_and_makes_none() -> None:
    """Its own role keeps its target, and others do not shrink for it."""
    node = a_node("n", cpu=4, memory="4Gi")
    role = a_role(1, 4, cpu="1")
    running = [a_pod("a", "t", index, "n", cpu="1") for index in range(3)]
    hopeless = a_job("h", phase="Pending", targets={"t": 7}, t=a_role(5, 9, cpu="1"))
    refused = a_job("q", phase="Pending", t=a_role(1, 2, cpu="1"))
    targets = decide(
        look(
            node,
            a_job("a", targets={"t": 3}, t=role),
            *running,
            hopeless,
            refused,
            a_group("q", reason="QueueClosed"),
        )
    )

    assert sizes(targets) == {"a/t": 3, "h/t": 7, "q/t": 1}
    assert [one.reason for one in targets.values()] == [
        SizeReason.FULL,
        SizeReason.HOPELESS,
        SizeReason.HOPELESS,
    ]


def test_roles_of_one_job_are_ordered_by_name() -> None:
    """The last tie-break, after namespace and name."""
    snapshot = look(a_job("b", y=a_role(), x=a_role()), a_job("a", z=a_role()))
    roles = [CandidateRole.of(job, state) for job in snapshot.jobs for state in job.roles]

    assert [f"{role.id.job.name}/{role.id.role}" for role in sorted_jobs(roles)] == [
        "a/z",
        "b/x",
        "b/y",
    ]


def test_gpu_resources_can_be_chosen() -> None:
    """The settings say which resources are GPUs."""
    spec = look(a_job("a", t=a_role(gpu=2))).jobs[0].roles[0].view.needs

    assert spec.gpus == 2
    assert (
        NeedsReader(("example.com/gpu",)).gpus_in({"example.com/gpu": 3, "nvidia.com/gpu": 9}) == 3
    )
