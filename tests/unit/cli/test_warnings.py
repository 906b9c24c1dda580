"""Warnings about jobs before they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body
from swell.cli.jobs.warnings import ClusterFacts, SubmitWarning, warnings_about


def node(name: str, labels: dict[str, str] | None = None, **offers: str) -> Node:
    amounts = {"pods": "100", "cpu": "4", "memory": "8Gi", **offers}
    body: Body = {
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": amounts},
    }
    return convert(body, Node)


def facts(*nodes: Node, runs_processes: bool = True) -> ClusterFacts:
    return ClusterFacts(nodes, {"default", "root", "vision"}, {"high"}, runs_processes)


SMALL = facts(node("a"), node("b", {"zone": "west"}))


def job(requests: Body | None = None, pod: Body | None = None, **role: Any) -> Body:
    container: Body = {"name": "c", "image": "x", "resources": {"requests": requests or {}}}
    template = {"spec": {"containers": [container], **(pod or {})}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "fit"},
        "spec": {"replicaSpecs": {"trainer": {"template": template, **role}}},
    }


def training_job(**resources: str) -> Body:
    trainer = {"min-instance": 2, "max-instance": 2, "resources": {"requests": resources}}
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "fit"},
        "spec": {"image": "x", "local_job": False, "is_nccl": True, "trainer": trainer},
    }


def only(body: Body, cluster: ClusterFacts = SMALL) -> SubmitWarning:
    (warning,) = warnings_about(body, cluster)
    return warning


@pytest.mark.parametrize(
    "body",
    [
        job(),
        job({"cpu": "4"}, replicas=2),
        job({"cpu": "3", "memory": "8Gi"}, replicas=2),
        job(pod={"nodeSelector": {"zone": "west"}}),
        training_job(cpu="4"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    ],
)
def test_job_that_fits_an_empty_cluster_has_no_warning(body: Body) -> None:
    """A job that only has to wait is not warned about."""
    assert warnings_about(body, SMALL) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (job({"cpu": "5"}), "a pod of trainer asks for 5 cpu, and the largest node has 4"),
        (
            job({"nvidia.com/gpu": "1"}),
            "a pod of trainer asks for 1 nvidia.com/gpu, and no node has any",
        ),
        (
            job({"cpu": "3"}, replicas=3),
            "trainer starts with 3 pods, and the cluster has room for 2 of 3 cpu each",
        ),
        (
            job(pod={"nodeSelector": {"zone": "east"}}),
            "no node has the labels that trainer asks for (zone=east)",
        ),
        (
            training_job(cpu="6"),
            "a pod of trainer asks for 6 cpu, and the largest node has 4",
        ),
    ],
)
def test_job_that_can_never_start_is_told_in_numbers(body: Body, message: str) -> None:
    """The message says what is asked and what there is."""
    warning = only(body)

    assert warning.message == message
    assert (warning.reason, warning.is_never) == ("CannotEverFit", True)


def test_roles_that_do_not_fit_together_are_counted_together() -> None:
    """Each role fits alone; the gang does not."""
    body = job({"cpu": "3"}, replicas=2)
    body["spec"]["replicaSpecs"]["server"] = job({"cpu": "3"})["spec"]["replicaSpecs"]["trainer"]

    assert only(body).message == "the cluster has 8 cpu in all; this job needs 9"


def test_elastic_role_is_judged_by_its_minimum() -> None:
    """A role that may start small can start."""
    elastic = job({"cpu": "4"}, replicas=9, minReplicas=2, maxReplicas=9, edlPolicy="Manual")
    elastic["spec"]["replicaSpecs"]["trainer"]["restartPolicy"] = "OnFailure"

    assert warnings_about(elastic, SMALL) == []


def test_nothing_is_known_without_nodes() -> None:
    """A cluster that has no node yet may get one; one that may not be listed says nothing."""
    assert warnings_about(job({"cpu": "500"}), facts()) == []
    assert warnings_about(job({"cpu": "500"}), ClusterFacts()) == []


def test_unknown_queue_is_warned_about_with_the_nearest() -> None:
    """A misspelt queue is never found."""
    body = job()
    body["spec"]["queue"] = "vison"
    warning = only(body)

    assert warning.message == "there is no queue vison"
    assert warning.hint == "did you mean vision? or create it: swell queue create vison"
    assert (warning.reason, warning.is_never) == ("QueueNotFound", True)


def test_unknown_priority_class_is_warned_about() -> None:
    """The job's own class is left out by the operator; that of a template refuses its pods."""
    body = job(pod={"priorityClassName": "hihg"})
    body["spec"]["priority"] = "urgent"
    own, template = warnings_about(body, SMALL)

    assert (own.steps, own.is_never) == (("spec", "priority"), False)
    assert template.is_never
    assert "did you mean high?" in template.hint


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ({"edlPolicy": "Auto", "minReplicas": 2, "maxReplicas": 2, "replicas": 2}, "NotElastic"),
        (
            {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 2, "replicas": 1},
            "ElasticWithoutRestarts",
        ),
        (
            {
                "edlPolicy": "Auto",
                "minReplicas": 1,
                "maxReplicas": 2,
                "replicas": 1,
                "restartPolicy": "OnFailure",
            },
            "NoCheckpoints",
        ),
    ],
)
def test_role_that_will_disappoint_is_warned_about(role: Body, reason: str) -> None:
    """It starts, and is not what its author means."""
    warning = only(job(**role))

    assert (warning.reason, warning.is_never) == (reason, False)


@pytest.mark.parametrize(
    "pod",
    [
        {"volumes": [{"name": "d", "hostPath": {"path": "/d"}}]},
        {"containers": [{"name": "c", "image": "x", "env": [{"name": "CHECKPOINT_DIR"}]}]},
        {"containers": [{"name": "c", "image": "x", "args": ["--ckpt=/d"]}]},
    ],
)
def test_place_for_checkpoints_is_recognised(pod: Body) -> None:
    """A volume that stays, or a name in a variable or an argument, is a place."""
    role: Body = {"edlPolicy": "Auto", "minReplicas": 1, "maxReplicas": 2, "replicas": 1}

    assert warnings_about(job(pod=pod, restartPolicy="OnFailure", **role), SMALL) == []


def test_local_image_is_warned_about_on_another_cluster_alone() -> None:
    """The embedded cluster runs processes and pulls nothing."""
    body = job()
    body["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["image"] = "local"

    assert warnings_about(body, SMALL) == []
    assert only(body, facts(node("a"), runs_processes=False)).reason == "LocalImage"
