"""Defaults: what is left out is filled in, and nothing else changes."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.defaults import body_with_defaults, training_job_with_defaults, with_defaults
from swell.api.trainingjob import TrainingJob
from swell.api.validation import validate
from tests.property.broken_manifests import manifest


def test_sizes_and_roles_of_a_job_are_filled_in() -> None:
    """Every size has a number, and roles are in lower case."""
    job = with_defaults(convert(manifest("aitrainingjob-full"), AITrainingJob))
    roles = job.spec.replica_specs

    assert list(roles) == ["worker", "ps"]
    ps = roles["ps"]
    assert (ps.replicas, ps.min_replicas, ps.max_replicas) == (1, 1, 1)
    assert with_defaults(job) == job


def test_local_training_jobs_have_one_trainer() -> None:
    """Whatever a local job asks for, it is one trainer."""
    body = manifest("trainingjob-full")
    body["spec"]["local_job"] = True
    trainer = training_job_with_defaults(convert(body, TrainingJob)).spec.trainer

    assert (trainer.min_instance, trainer.max_instance) == (1, 1)


def test_instances_of_a_training_job_are_filled_in() -> None:
    """One pod unless a minimum is given; the maximum is the minimum unless given."""
    job = convert({"spec": {"image": "i", "trainer": {"min-instance": 2}}}, TrainingJob)
    spec = training_job_with_defaults(job).spec

    assert (spec.trainer.min_instance, spec.trainer.max_instance) == (2, 2)
    assert (spec.pserver.min_instance, spec.pserver.max_instance) == (1, 1)


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
