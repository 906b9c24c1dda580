"""Defaults: what is left out is filled in, and nothing else changes."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob, ReplicaSpec
from swell.api.codec import convert
from swell.api.defaults import MAX_REPLICAS
from swell.api.manifest.defaulting import body_with_defaults
from swell.api.trainingjob import TrainingJob
from swell.api.validation import validate
from tests.property.broken_manifests import manifest

ROLES: list[dict[str, int]] = [
    {},
    {"minReplicas": 3},
    {"minReplicas": 1, "replicas": 2},
    {"minReplicas": 1, "replicas": 2, "maxReplicas": 4},
]


def test_sizes_and_roles_of_a_job_are_filled_in() -> None:
    """Every size has a number, and roles are in lower case."""
    body = manifest("aitrainingjob-full")
    full = body_with_defaults(body)
    roles = convert(full, AITrainingJob).spec.replica_specs
    unfilled = convert(body, AITrainingJob).spec.replica_specs["ps"]

    assert list(roles) == ["worker", "ps"]
    ps = roles["ps"]
    assert (ps.replicas, ps.min_replicas, ps.max_replicas) == (1, 1, 1)
    assert (unfilled.size, unfilled.minimum, unfilled.maximum) == (1, 1, 1)
    assert body_with_defaults(full) == full


def test_missing_size_is_read_from_the_others() -> None:
    """Structs, manifests and CEL prefer the same fields in the same order."""
    assert [MAX_REPLICAS.of_manifest(role.get) for role in ROLES] == [1, 3, 2, 4]
    assert [convert(role, ReplicaSpec).maximum for role in ROLES] == [1, 3, 2, 4]
    assert MAX_REPLICAS.in_cel("r") == (
        "(has(r.maxReplicas) ? r.maxReplicas : has(r.replicas) ? r.replicas"
        " : has(r.minReplicas) ? r.minReplicas : 1)"
    )


def test_local_training_jobs_have_one_trainer() -> None:
    """Whatever a local job asks for, it is one trainer."""
    body = manifest("trainingjob-full")
    body["spec"]["local_job"] = True
    spec = convert(body, TrainingJob).spec

    assert (spec.trainer_minimum, spec.trainer_maximum) == (1, 1)


def test_instances_of_a_training_job_are_filled_in() -> None:
    """One pod unless a minimum is given; the maximum is the minimum unless given."""
    job = convert({"spec": {"image": "i", "trainer": {"min-instance": 2}}}, TrainingJob)
    spec = job.spec

    assert (spec.trainer_minimum, spec.trainer_maximum) == (2, 2)
    assert (spec.pserver.minimum, spec.pserver.maximum) == (1, 1)


def test_manifest_is_written_out_in_full() -> None:
    """All defaults are there, the user's values stay, and the result is valid."""
    body = manifest("aitrainingjob-mnist")
    full = body_with_defaults(body)
    trainer = full["spec"]["replicaSpecs"]["trainer"]

    assert full["spec"]["queue"] == "default"
    assert (full["spec"]["failPolicy"], full["spec"]["completePolicy"]) == ("Any", "All")
    assert (trainer["replicas"], trainer["minReplicas"], trainer["maxReplicas"]) == (1, 1, 1)
    assert (trainer["edlPolicy"], trainer["restartScope"]) == ("Never", "All")
    assert trainer["failPolicy"] == "Rank0"
    assert trainer["template"] == body["spec"]["replicaSpecs"]["trainer"]["template"]
    assert validate(full) == []
    assert body_with_defaults(full) == full
    assert body == manifest("aitrainingjob-mnist")


def test_empty_fields_are_left_out() -> None:
    """A null is a field that is not there."""
    body = manifest("trainingjob-example")
    body["spec"]["port"] = None
    body["spec"]["schedulerName"] = None

    full = body_with_defaults(body)["spec"]
    assert full["port"] == 7164
    assert "schedulerName" not in full


def test_other_kinds_are_left_alone() -> None:
    """What is not ours has no defaults of ours."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": None}}

    assert body_with_defaults(body) is body
