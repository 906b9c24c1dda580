"""Which job, role and index a pod belongs to, by its owner and labels. Pure."""

from __future__ import annotations

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.trainingjob import COMPLETION_INDEX, JOB_NAME_LABEL, JOB_UID_LABEL, ROLE_LABELS
from swell.history.settings import PodPlace

JOB_LABEL = "TrainingJobName"
ROLE_LABEL = "TrainingJobReplicaName"
INDEX_LABEL = "TrainingJobReplicaIndex"


def ai_training_job_place(pod: Pod) -> PodPlace | None:
    """Returns the place of a pod of an AITrainingJob; None for any other pod."""
    owner, labels = pod.metadata.controller, pod.metadata.labels
    role, index = labels.get(ROLE_LABEL, ""), labels.get(INDEX_LABEL, "")
    if owner is None or owner.kind != AI_TRAINING_JOBS.kind or not role or not index.isdecimal():
        return None
    return PodPlace(Key(pod.metadata.namespace, owner.name), owner.uid, role, int(index))


def training_job_place(pod: Pod) -> PodPlace | None:
    """Returns the place of a pod of a TrainingJob; None for any other pod."""
    labels = pod.metadata.labels
    role = next((role for role, label in ROLE_LABELS.items() if labels.get(label)), None)
    uid, name = labels.get(JOB_UID_LABEL), labels.get(JOB_NAME_LABEL)
    if role is None or not uid or not name:
        return None
    index = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    if not index.isdecimal():  # of a ReplicaSet; its pods get their numbers later, or never
        index = labels.get(f"{name}-{role}-idx", "")
    number = int(index) if index.isdecimal() else 0
    return PodPlace(Key(pod.metadata.namespace, name), Uid(uid), role, number)
