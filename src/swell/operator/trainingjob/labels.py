"""The labels, annotations and names of the objects that belong to a TrainingJob."""

from __future__ import annotations

from enum import Enum

from swell.api.trainingjob import API_GROUP

FINALIZER = f"{API_GROUP}/release"

ENDING = f"{API_GROUP}/ending"  # on the job: how it ended, in case its status is lost

JOB_UID = "paddle-job-uid"
JOB_NAME = "paddle-job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

USER_ID = f"{API_GROUP}/userid"
USER_GROUP_ID = f"{API_GROUP}/usergroupid"


class Role(Enum):
    """The three roles, in the order in which they are created."""

    MASTER = "master"
    PSERVER = "pserver"
    TRAINER = "trainer"


ROLE_LABELS = {
    Role.MASTER: "paddle-job-master",
    Role.PSERVER: "paddle-job-pserver",
    Role.TRAINER: "paddle-job",
}


def workload_name(job: str, role: Role) -> str:
    return f"{job}-{role.value}"


def index_label(job: str, role: Role) -> str:
    """The label that numbers a role's pods."""
    return f"{job}-{role.value}-idx"
