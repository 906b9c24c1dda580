"""Objects that the release before this one stored: they load, with the meaning they had."""

from __future__ import annotations

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert, to_body
from swell.api.crds import crd
from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS
from swell.api.trainingjob import TrainingJob

TRAINING_JOB: Body = {
    "apiVersion": "paddlepaddle.org/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "fit", "namespace": "team", "uid": "u"},
    "spec": {"image": "paddle", "trainer": {"min-instance": 2}, "stray": {"kept": True}},
    "status": {"phase": "Running", "trainer_target": 2},
}
AI_TRAINING_JOB: Body = {
    "metadata": {"name": "fit", "namespace": "team", "uid": "u"},
    "spec": {"replicaSpecs": {"trainer": {"template": {"spec": {"containers": []}}}}},
    "status": {"phase": "Creating", "uncharged": {"trainer": 1}},
}


def test_training_job_without_a_queue_is_in_the_default_one() -> None:
    """As it was before queues could be named."""
    assert convert(TRAINING_JOB, TrainingJob).queue == "default"


def test_job_without_new_fields_has_none_written() -> None:
    """A field that is not used is not stored, so the former release sees what it knows."""
    job = convert(AI_TRAINING_JOB, AITrainingJob)

    assert to_body(job.status) == AI_TRAINING_JOB["status"]
    assert to_body(job.spec) == AI_TRAINING_JOB["spec"]


@pytest.mark.parametrize("version", ["v1alpha1", "v1"])
def test_queue_is_in_both_versions_of_the_kind(version: str) -> None:
    """They have one schema, and neither converts."""
    (definition,) = [one for one in DEFINITIONS if one.kind == "TrainingJob"]
    (served,) = [one for one in crd(definition)["spec"]["versions"] if one["name"] == version]
    spec = served["schema"]["openAPIV3Schema"]["properties"]["spec"]

    assert spec["properties"]["queue"]["type"] == "string"
    assert spec["x-kubernetes-preserve-unknown-fields"]
