"""The labels, annotations and names of the objects that belong to an AITrainingJob."""

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

# Records on objects other than the status, from which a lost one is rebuilt (see `recovery`).
ENDING = f"{API_GROUP}/ending"  # on the job: how it ends
AFTER = f"{API_GROUP}/after"  # on the job: what became of those that it comes after
RESTARTS = f"{API_GROUP}/restarts"  # on the members ConfigMap: the restarts so far

# Kueue's marks of pods that it admits together: the group's name, and how many they are.
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
# What Kueue itself puts on the pods that it admits.
KUEUE_FINALIZER = "kueue.x-k8s.io/managed"

# The prefix of containers and ports that take part in the job; all others are the user's own.
OURS = "aitj-"


def pod_name(job: str, role: str, index: int) -> str:
    """The name of a replica's pod, and of its service."""
    return f"{job}-{role}-{index}"


def of_job(job: str) -> dict[str, str]:
    """The labels of every object that belongs to a job."""
    return {GROUP_NAME: GROUP_VALUE, TRAINING_JOB_NAME: job, JOB_NAME: job}


def members_name(job: str) -> str:
    return f"{job}-members"
