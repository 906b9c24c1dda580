"""Jobs with a network topology survive the definitions and the operator of release 0.1.

There and back no pod of them is deleted or created. What is said by annotations stays as it was.
The fields are unknown to the definitions of release 0.1: where these are put back and a job is
written, its user has to say them again, and until then its group has no constraint.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert, to_body
from swell.api.kinds import JOBS, PODS, REPLICA_SETS
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import TrainingJob
from tests.unit.operator import scene as ai
from tests.unit.operator.earlier_release import seen_by_earlier_release, writes_besides_status
from tests.unit.operator.trainingjob import tj_scene as tj

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
CHOSEN = "volcano.sh/job-allocated-hypernode"
RACK = {"mode": "hard", "highestTierName": "rack"}
BLOCK = {"mode": "hard", "highestTierAllowed": 2}


def annotated_job() -> ai.Scene:
    role = ai.a_role(replicas=2)
    role["template"]["metadata"] = {"annotations": {REQUIRED: "rack"}}
    return ai.Scene(ai.a_job({"trainer": role})).running().settle()


def annotated_training_job() -> tj.Scene:
    job = tj.elastic(2, 4)
    meta = replace(job.metadata, annotations={REQUIRED: "rack"})
    return tj.Scene(replace(job, metadata=meta)).running().settle()


def constrained_job() -> ai.Scene:
    """One with fields for the whole and for a role, whose group the scheduler has placed."""
    role = ai.a_role(replicas=2, networkTopology=RACK)
    scene = ai.Scene(ai.a_job({"trainer": role}, networkTopology=BLOCK)).running().settle()
    assert scene.group is not None
    meta = replace(scene.group.metadata, annotations={CHOSEN: "rack-1"})
    scene.group = replace(scene.group, metadata=meta)
    return scene


# By name: the definition, a job, its type, and the fields that release 0.1 drops from its spec.
STORED: dict[str, tuple[str, Any, Any, set[str]]] = {
    "annotated job": ("aitrainingjobs", annotated_job, AITrainingJob, set()),
    "annotated training job": ("trainingjobs", annotated_training_job, TrainingJob, set()),
    "job with fields": (
        "aitrainingjobs",
        constrained_job,
        AITrainingJob,
        {"spec.networkTopology", "spec.replicaSpecs.trainer.networkTopology"},
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_earlier_release_reads_such_jobs(name: str) -> None:
    """It drops the fields, says nothing against the rest, and keeps the annotations."""
    definition, make, _, lost = STORED[name]
    body = to_body(make().job)
    kept, dropped, errors = seen_by_earlier_release(definition, body)

    assert errors == []
    assert {one for one in dropped if one.startswith("spec.")} == lost
    assert kept["metadata"] == body["metadata"]
    if not lost:
        assert kept["spec"] == body["spec"]


@pytest.mark.parametrize("name", STORED)
def test_operator_has_nothing_to_do_for_what_the_earlier_one_left(name: str) -> None:
    """Definitions are rarely put back with a program: then the fields are still there."""
    _, make, kind, _ = STORED[name]
    scene = make()
    body = to_body(scene.job)
    for condition in body["status"]["conditions"]:
        del condition["observedGeneration"]  # release 0.1 wrote none
    scene.job = convert(body, kind)

    assert writes_besides_status(scene.look()) == []


@pytest.mark.parametrize("name", ["annotated job", "annotated training job"])
def test_annotations_survive_the_way_back_and_again_forward(name: str) -> None:
    definition, make, kind, _ = STORED[name]
    scene = make()
    before = scene.job
    kept, _, _ = seen_by_earlier_release(definition, to_body(before))
    scene.job = convert(kept, kind)

    assert writes_besides_status(scene.look()) == []
    scene.settle()
    assert scene.job.spec == before.spec
    assert scene.job.metadata == before.metadata


def test_workloads_of_the_earlier_release_stay_as_they_are() -> None:
    """It copied no annotation of a TrainingJob to its pods; a template must not change."""
    scene = annotated_training_job()
    for resource, name in list(scene.held):
        if resource in {str(REPLICA_SETS), str(JOBS)}:
            template = {"metadata": {"annotations": {REQUIRED: None}}}
            scene.change(resource, name, {"spec": {"template": template}})
        elif resource == str(PODS):
            scene.change(resource, name, {"metadata": {"annotations": {REQUIRED: None}}})

    assert writes_besides_status(scene.look()) == []


def test_fields_that_were_dropped_are_said_again_and_no_pod_moves() -> None:
    """Meanwhile the group has no constraint. What the scheduler wrote on it stays."""
    scene = constrained_job()
    before, pods, group = scene.job, scene.pods, scene.group
    kept, _, _ = seen_by_earlier_release("aitrainingjobs", to_body(before))
    scene.job = convert(kept, AITrainingJob)
    scene.settle()

    assert scene.group is not None
    assert scene.group.spec.network_topology is None
    assert scene.group.spec.sub_group_policy == ()
    assert scene.pods == pods

    scene.job = replace(scene.job, spec=before.spec)
    scene.settle()

    assert group is not None
    assert (scene.group.spec, scene.group.metadata.annotations) == (
        group.spec,
        {CHOSEN: "rack-1"},
    )
    assert scene.pods == pods


def test_group_that_knows_no_topology_is_read_and_written_back() -> None:
    """As an earlier Volcano stores it; one that is not used is not written."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "fit", "namespace": "team"},
        "spec": {"minMember": 2, "queue": "default"},
    }
    group = convert(body, PodGroup)

    assert group.spec.network_topology is None
    assert to_body(group.spec) == body["spec"]
