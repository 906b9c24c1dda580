"""The two kinds of elastic job, as one who only looks at sizes sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.trainingjob import TrainingJob
from swell.node.hollow import PREFIX

AnyJob = AITrainingJob | TrainingJob
RESOURCES: Body = {"requests": {"cpu": "1", "memory": "64Mi"}}
TRAINER = "trainer"
OLD = "TrainingJob"
NEW = "AITrainingJob"
# The label that names a pod's job, by kind of job.
JOB_LABELS = {NEW: "TrainingJobName", OLD: "paddle-job"}


@dataclass(frozen=True, slots=True)
class Bounds:
    least: int
    most: int

    @property
    def is_elastic(self) -> bool:
        return self.least < self.most


def elastic_job(kind: str, name: str, namespace: str, bounds: Bounds) -> Body:
    """A job whose trainers run until they are told to end."""
    if kind == NEW:
        return a_job(name, namespace, bounds)
    trainer = {
        "entrypoint": "train",
        "min-instance": bounds.least,
        "max-instance": bounds.most,
        "resources": RESOURCES,
    }
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": OLD,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "image": "local",
            "fault_tolerant": True,
            "frame_work": {"type": "nccl2"},  # without pservers
            "master": {"entrypoint": "hand out work", "etcd-endpoint": "none"},
            TRAINER: trainer,
        },
    }


def a_job(
    name: str,
    namespace: str,
    bounds: Bounds,
    does: Mapping[str, str] | None = None,
    **spec: object,
) -> Body:
    """An AITrainingJob: elastic if its bounds are, and then Auto; `does` is what its pods do."""
    annotations = {PREFIX + what: text for what, text in (does or {}).items()}
    container: Body = {"name": "aitj-main", "image": "local", "resources": RESOURCES}
    role: Body = {
        "replicas": bounds.least,
        "minReplicas": bounds.least,
        "maxReplicas": bounds.most,
        "edlPolicy": "Auto" if bounds.is_elastic else "Never",
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        },
    }
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": NEW,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicaSpecs": {TRAINER: role}, **spec},
    }


def target_of(job: AnyJob) -> int:
    """How many trainers a job is to have; 0 before anybody has said so."""
    if isinstance(job, TrainingJob):
        return job.status.trainer_target or 0
    return job.status.target_replicas.get(TRAINER, 0)
