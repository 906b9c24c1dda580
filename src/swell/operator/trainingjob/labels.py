"""The labels, annotations and names of the objects that belong to a TrainingJob."""

from __future__ import annotations

from enum import Enum

from swell.api import trainingjob
from swell.api.trainingjob import API_GROUP, COMPLETION_INDEX, JOB_NAME_LABEL, JOB_UID_LABEL

__all__ = ["COMPLETION_INDEX"]

FINALIZER = f"{API_GROUP}/release"

ENDING = f"{API_GROUP}/ending"  # on the job: how it ended, in case its status is lost
AFTER = f"{API_GROUP}/after"  # on the job: what became of those that it comes after

JOB_UID = JOB_UID_LABEL
JOB_NAME = JOB_NAME_LABEL

USER_ID = f"{API_GROUP}/userid"
USER_GROUP_ID = f"{API_GROUP}/usergroupid"


class Role(Enum):
    """The three roles, in the order in which they are created."""

    MASTER = "master"
    PSERVER = "pserver"
    TRAINER = "trainer"


ROLE_LABELS = {role: trainingjob.ROLE_LABELS[role.value] for role in Role}


def workload_name(job: str, role: Role) -> str:
    return f"{job}-{role.value}"


def addresses_name(job: str) -> str:
    """The name of the ConfigMap that holds the addresses of the job's pods."""
    return f"{job}-addresses"


def members_name(job: str) -> str:
    """The name of the ConfigMap by which the job's trainers know each other."""
    return f"{job}-members"


def index_label(job: str, role: Role) -> str:
    """The label that numbers a role's pods."""
    return f"{job}-{role.value}-idx"
