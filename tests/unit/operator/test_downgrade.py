"""Jobs whose programs report survive the definitions and the operator of release 0.1.

There and back, nothing of them is deleted or created, and what release 0.1 drops from a status is
there again with the next report. Its operators, run on these objects, wrote their conditions anew,
without the generations that they do not know, and the lists of members without the instances.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert, encode, to_body
from swell.api.injection import INSTANCES_FILE
from swell.api.trainingjob import TrainingJob
from swell.operator.framework.reports import ReceivedReport, read_report
from swell.operator.framework.training import REPORT_TOKEN, TRAINING
from tests.unit.operator import scene as ai
from tests.unit.operator.earlier_release import seen_by_earlier_release, writes_besides_status
from tests.unit.operator.trainingjob import tj_scene as tj

# Everything that a leader tells.
REPORT = {
    "generation": 3,
    "epoch": 7,
    "size": 2,
    "step": 40,
    "samples": 1200,
    "totalSamples": 4000,
    "rates": {"2": 30.0, "4": 55.0},
    "stepTimes": {"2/1/64": [0.31, 0.04]},
    "batchRange": [64, 512, 16, 128],
    "globalBatch": 128,
    "gradientNorm2": 2.0,
    "gradientVariance": 3.0,
    "loss": 0.5,
    "lastSave": {"step": 30, "seconds": 1.5, "time": "2027-01-15T08:00:00Z"},
    "saves": True,
    "lastPauseSeconds": 0.2,
    "slowest": {"index": 1, "ratio": 1.4, "steps": 9},
}


def report(at: float) -> ReceivedReport:
    return ReceivedReport(read_report(encode(REPORT)), at, "trainer", 0)


def training_job() -> tj.Scene:
    job = tj.elastic(2, 4)
    meta = replace(job.metadata, annotations={TRAINING: "true", REPORT_TOKEN: "t"})
    scene = tj.Scene(replace(job, metadata=meta)).running()
    scene.now += 30
    scene.report = report(scene.now)
    return scene.settle()


def ai_training_job() -> ai.Scene:
    role = ai.a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Manual", hangSeconds=90)
    scene = ai.Scene(ai.a_job({"trainer": role}, reporting=True)).running().after(30)
    scene.report = report(scene.now)
    return scene.settle()


# By kind: a job, its type, and the fields that the definitions of release 0.1 drop from it.
KINDS: dict[str, tuple[Any, Any, set[str]]] = {
    "trainingjobs": (training_job, TrainingJob, {"status.training"}),
    "aitrainingjobs": (
        ai_training_job,
        AITrainingJob,
        {
            "spec.reporting",
            "spec.replicaSpecs.trainer.hangSeconds",
            "status.phaseHistory[0].reason",
            "status.phaseHistory[1].reason",
            "status.training",
        },
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_earlier_release_reads_such_jobs(name: str) -> None:
    """It drops what it does not know, says nothing against the rest, and keeps the annotations."""
    make, _, lost = KINDS[name]
    body = to_body(make().job)
    kept, dropped, errors = seen_by_earlier_release(name, body)

    assert errors == []
    assert dropped == lost
    assert kept["metadata"] == body["metadata"]
    assert REPORT_TOKEN in kept["metadata"]["annotations"]


@pytest.mark.parametrize("name", KINDS)
def test_its_operator_alone_loses_nothing(name: str) -> None:
    """Definitions are rarely put back with a program. It merges what it knows into the status."""
    make, kind, _ = KINDS[name]
    scene = make()
    before = scene.job
    body = to_body(before)
    for condition in body["status"]["conditions"]:
        del condition["observedGeneration"]
    scene.job = convert(body, kind)
    assert writes_besides_status(scene.look()) == []
    scene.settle()

    assert replace(scene.job.status, conditions=before.status.conditions) == before.status
    assert scene.job.spec == before.spec


@pytest.mark.parametrize("name", KINDS)
def test_what_its_definitions_drop_is_there_again_after_an_upgrade(name: str) -> None:
    """All of `status.training` with the next report; no pod, secret or list is made anew."""
    make, kind, _ = KINDS[name]
    scene = make()
    before = scene.job
    kept, _, _ = seen_by_earlier_release(name, to_body(before))
    back = convert(kept, kind)
    scene.report = None
    if name == "aitrainingjobs":
        # The operator of release 0.1 takes the numbers of instances for a role that is gone; and
        # `reporting` is the user's word, who gives it again.
        data = {key: text for key, text in scene.members.data.items() if key != INSTANCES_FILE}
        scene.members = replace(scene.members, data=data)
    scene.job = back
    assert scene.job.status.training is None
    if name == "trainingjobs":
        assert writes_besides_status(scene.look()) == []
    else:
        members = scene.pods
        scene.settle()
        scene.job = replace(scene.job, spec=before.spec)
        scene.settle()
        assert scene.pods == members
        assert scene.members.data[INSTANCES_FILE].startswith("trainer 1 1")
    scene.now += 60
    scene.report = report(scene.now)
    scene.settle()

    again = scene.job.status.training
    assert again is not None
    held = before.status.training
    times = {"reported_at": held.reported_at, "eta": held.eta}
    assert replace(again, **times) == held
    assert again.last_save.step == 30
    assert writes_besides_status(scene.look()) == []
