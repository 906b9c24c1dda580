"""The labels, annotations and names by which a job's objects are known."""

from __future__ import annotations

from swell.api.aitrainingjob import API_GROUP

FINALIZER = f"{API_GROUP}/cleanup"

GROUP_NAME = "GroupName"
GROUP_VALUE = API_GROUP
TRAINING_JOB_NAME = "TrainingJobName"
JOB_NAME = "JobName"
POD_ROLE = "PodRole"
RESTART_COUNT = "RestartCount"
REPLICA_NAME = "TrainingJobReplicaName"
REPLICA_INDEX = "TrainingJobReplicaIndex"
PRIORITY = "priority"

GANG_ANNOTATION = "scheduling.k8s.io/group-name"
TASK_ANNOTATION = "volcano.sh/task-spec"

# Containers and ports whose names begin so belong to the job; others are the user's own affair.
OURS = "aitj-"


def pod_name(job: str, role: str, index: int) -> str:
    """Also the name of the pod's service."""
    return f"{job}-{role}-{index}"


def members_name(job: str) -> str:
    return f"{job}-members"
