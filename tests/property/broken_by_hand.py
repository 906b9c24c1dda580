"""Broken manifests written by hand: the rules between fields, names, and what must be there."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from tests.property.broken_manifests import (
    CONTAINER,
    WORKER,
    Broken,
    manifest,
    with_field,
    without_field,
)

# Path of the change, new value (REMOVED: taken out), path to be reported, part of the hint.
REMOVED = object()
Change = tuple[str, object, str, str]

ROLE = {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
LONG = "a" * 64

AI_TRAINING_JOB: list[Change] = [
    ("spec", REMOVED, "spec", "add spec"),
    ("spec.replicaSpecs", REMOVED, "spec.replicaSpecs", "add replicaSpecs"),
    ("spec.replicaSpecs", {}, "spec.replicaSpecs", "add"),
    (
        "spec.replicaSpecs",
        {f"r{n}": ROLE for n in range(17)},
        "spec.replicaSpecs",
        "shorter",
    ),
    ("spec.after", ["full"], "spec.after", "remove"),
    ("spec.managedBy", "nobody", "spec.managedBy", "for example"),
    ("spec.scale", {"role": "Worker"}, "spec.scale", "edlPolicy: Manual"),
    (f"{WORKER}.template", REMOVED, f"{WORKER}.template", "add template"),
    (f"{WORKER}.template.spec", REMOVED, f"{WORKER}.template.spec", "add spec"),
    (
        f"{WORKER}.template.spec.containers",
        REMOVED,
        f"{WORKER}.template.spec.containers",
        "add containers",
    ),
    (f"{WORKER}.template.spec.containers", [], f"{WORKER}.template.spec.containers", "add"),
    (
        f"{WORKER}.template.spec.containers",
        [{"name": "a", "image": "b"}, {"name": "a", "image": "c"}],
        f"{WORKER}.template.spec.containers[1].name",
        "another one",
    ),
    (f"{CONTAINER}.image", REMOVED, f"{CONTAINER}.image", "image: python"),
    (f"{CONTAINER}.image", "", f"{CONTAINER}.image", "add"),
    (f"{CONTAINER}.name", REMOVED, f"{CONTAINER}.name", "aitj-trainer"),
    (f"{CONTAINER}.name", "Not_A_Name", f"{CONTAINER}.name", "for example"),
    (f"{CONTAINER}.ports[0].containerPort", 65536, f"{CONTAINER}.ports[0].containerPort", "65535"),
    (f"{CONTAINER}.ports[0].containerPort", 0, f"{CONTAINER}.ports[0].containerPort", "1 or more"),
    (f"{WORKER}.replicas", 1, f"{WORKER}.minReplicas", "lower minReplicas"),
    (f"{WORKER}.replicas", 9, f"{WORKER}.replicas", "raise maxReplicas"),
    (f"{WORKER}.minReplicas", 5, f"{WORKER}.minReplicas", "raise replicas"),
    (f"{WORKER}.maxReplicas", 3, f"{WORKER}.replicas", "lower replicas"),
    (f"{WORKER}.replicas", 0, f"{WORKER}.replicas", "1 or more"),
    (f"{WORKER}.replicas", 2**31, f"{WORKER}.replicas", "or less"),
    (f"{WORKER}.replicas", 1.5, f"{WORKER}.replicas", "without a fraction"),
    ("spec.replicaSpecs.ps.maxReplicas", 0, "spec.replicaSpecs.ps.maxReplicas", "1 or more"),
    ("spec.replicaSpecs.TrainingJob", ROLE, "spec.replicaSpecs.TrainingJob", "trainer"),
    ("spec.replicaSpecs.trainingjob", ROLE, "spec.replicaSpecs.trainingjob", "trainer"),
    ("spec.replicaSpecs.PS", ROLE, "spec.replicaSpecs.PS", "another name"),
    ("spec.replicaSpecs.1st", ROLE, 'spec.replicaSpecs["1st"]', "trainer"),
    ("spec.replicaSpecs.a_b", ROLE, "spec.replicaSpecs.a_b", "trainer"),
    ("spec.replicaSpecs.end-", ROLE, "spec.replicaSpecs.end-", "trainer"),
    (f"spec.replicaSpecs.{LONG}", ROLE, f"spec.replicaSpecs.{LONG}", "trainer"),
    ("metadata.name", "a" * 55, "spec.replicaSpecs.Worker", "by 1"),
    ("metadata.name", "Full", "metadata.name", "my-job"),
    ("metadata.name", "1full", "metadata.name", "my-job"),
    ("metadata.name", "full-", "metadata.name", "my-job"),
    ("metadata.name", "a.b", "metadata.name", "my-job"),
    ("metadata.name", REMOVED, "metadata.name", "my-job"),
    ("metadata.labels.team", 5, "metadata.labels.team", "quotes"),
    ("spec.restartingExitCode", "137;128", "spec.restartingExitCode", "137,128"),
    ("spec.restartingExitCode", "137,", "spec.restartingExitCode", "137,128"),
    ("spec.restartingExitCode", "0", "spec.restartingExitCode", "137,128"),
    ("spec.restartingExitCode", "256,1", "spec.restartingExitCode", "137,128"),
    ("spec.restartingExitCode", 0, "spec.restartingExitCode", "1 or more"),
    ("spec.restartingExitCode", 256, "spec.restartingExitCode", "255 or less"),
    ("spec.restartingExitCode", "SIGKILL", "spec.restartingExitCode", "137,128"),
    ("spec.restartingExitCode", True, "spec.restartingExitCode", "digits"),
    ("spec.priority", "very high", "spec.priority", "high-priority"),
    ("spec.queue", "Research Team", "spec.queue", "my-queue"),
    ("spec.timeLimit", "1h", "spec.timeLimit", "digits"),
    ("spec.replicas", 3, "spec.replicas", "replicaSpecs"),
    ("apiVersion", "elasticdeeplearning.ai/v2", "apiVersion", "elasticdeeplearning.ai/v1"),
    ("kind", "AITrainigJob", "kind", "did you mean AITrainingJob?"),
]
TRAINING_JOB: list[Change] = [
    ("spec", REMOVED, "spec", "add spec"),
    ("spec.image", REMOVED, "spec.image", "paddle"),
    ("spec.image", "", "spec.image", "add"),
    ("spec.pserver.min-instance", 2, "spec.pserver.min-instance", "max-instance"),
    ("spec.trainer.min-instance", 5, "spec.trainer.min-instance", "max-instance"),
    ("spec.trainer.min-instance", 0, "spec.trainer.min-instance", "1 or more"),
    ("spec.fault_tolerant", False, "spec.fault_tolerant", "fault_tolerant: true"),
    ("spec.fault_tolerant", REMOVED, "spec.fault_tolerant", "fault_tolerant: true"),
    ("spec.port", 70000, "spec.port", "65535"),
    ("spec.port", 0, "spec.port", "1 or more"),
    ("spec.frame_work.type", "nccl", "spec.frame_work.type", "did you mean nccl2?"),
    ("spec.frame_work.name", "pytorch", "spec.frame_work.name", "paddle, tensorflow"),
    ("metadata.name", "a" * 52, "metadata.name", "shorter"),
    ("apiVersion", "paddlepaddle.org/v1beta1", "apiVersion", "paddlepaddle.org/v1"),
    ("kind", "TrainingJobs", "kind", "did you mean TrainingJob?"),
]
# Refused by us, and let through by an API server, which does not look that closely.
CLIENT_ONLY_AI: list[Change] = [
    (
        f"{CONTAINER}.resources.requests.cpu",
        "3",
        f"{CONTAINER}.resources.requests.cpu",
        "lower the request",
    ),
    (
        f"{CONTAINER}.resources.limits.memory",
        "2 GB",
        f"{CONTAINER}.resources.limits.memory",
        "1.5Gi",
    ),
    (f"{CONTAINER}.resources.limits.cpu", -1, f"{CONTAINER}.resources.limits.cpu", "0 or more"),
    (
        f"{WORKER}.template.spec.initContainers[0].resources.requests.cpu",
        {},
        f"{WORKER}.template.spec.initContainers[0].resources.requests.cpu",
        "500m",
    ),
]
CLIENT_ONLY_TRAINING: list[Change] = [
    ("spec.port", 65535, "spec.port", "lower port"),
    (
        "spec.trainer.resources",
        {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
        "spec.trainer.resources.requests.cpu",
        "raise the limit",
    ),
]
CLIENT_ONLY_POD_GROUP: list[Change] = [
    (
        "spec.networkTopology.highestTierName",
        "rack",
        "spec.networkTopology.highestTierName",
        "one of the two",
    ),
    ("kind", "PodGruop", "kind", "did you mean PodGroup?"),
]
CLIENT_ONLY_QUEUE: list[Change] = [
    ("spec.guarantee.resource.cpu", 33, "spec.guarantee.resource.cpu", "raise deserved"),
    ("spec.deserved.memory", "257Gi", "spec.deserved.memory", "raise capability"),
    ("spec.parent", "research", "spec.parent", "another queue"),
    ("metadata.name", "root", "spec.parent", "remove the field"),
]

TABLES = (
    ("aitrainingjob-full", AI_TRAINING_JOB, True),
    ("aitrainingjob-full", CLIENT_ONLY_AI, False),
    ("trainingjob-full", TRAINING_JOB, True),
    ("trainingjob-full", CLIENT_ONLY_TRAINING, False),
    ("podgroup", CLIENT_ONLY_POD_GROUP, False),
    ("queue", CLIENT_ONLY_QUEUE, False),
)


def written_by_hand() -> Iterator[Broken]:
    for name, changes, on_server in TABLES:
        body = manifest(name)
        for path, value, reported, hint in changes:
            title = f"{name}: {path} {'removed' if value is REMOVED else 'changed'}"
            yield Broken(title, _changed(body, path, value), reported, hint, on_server)


def _changed(body: Body, path: str, value: object) -> Body:
    return without_field(body, path) if value is REMOVED else with_field(body, path, value)
