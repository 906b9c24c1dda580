"""Reads pods that are equal to the one before in all but name, as most pods of a gang are.

A pod that waits and has neither node nor claims means one task more of its job, and nothing else.
If it is equal to one that has just been read, what was found out then holds for it, too.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from swell.api.pod import Pod, PodPhase
from swell.scheduler.model.elastic import JOB_LABEL, TRAINERS_LABEL
from swell.scheduler.model.pod_notes import PREEMPTABLE_KEY, ROLE_KEY
from swell.scheduler.model.tasks import Task, TaskStatus

# Labels that make a task differ from others. All other labels only tell pods apart.
_TELLING: Final = (ROLE_KEY, PREEMPTABLE_KEY, JOB_LABEL, TRAINERS_LABEL)
_PENDING: Final = PodPhase.PENDING


def may_have_twins(task: Task) -> bool:
    """Whether an equal pod would change no more than how many tasks there are of the job."""
    labels, job = task.pod.metadata.labels, task.job
    return (
        job is not None
        and job.native is None
        and job.sub_groups is None  # which one a pod is in is said by other labels, too
        and task.status is TaskStatus.PENDING
        and task.podset_request is None
        and not task.unreadable
        and not task.shape.has_claims
        and not task.pod.spec.node_name
        and JOB_LABEL not in labels
        and TRAINERS_LABEL not in labels
    )


def read_twin(task: Task, key: str, pod: Pod) -> Task | None:
    """Returns the task of a pod, of the same job; None if it differs by more than its name.

    The task is one that `may_have_twins`.
    """
    meta, first = pod.metadata, task.pod.metadata
    if (
        pod.spec != task.pod.spec
        or meta.annotations != first.annotations
        or meta.namespace != first.namespace
        or pod.status.phase is not _PENDING
        or meta.deletion_timestamp is not None
    ):
        return None
    labels, of_first = meta.labels, first.labels
    for label in _TELLING:
        if labels.get(label) != of_first.get(label):
            return None
    twin = copy(task)
    twin.key, twin.pod = key, pod
    twin.nominated = pod.status.nominated_node_name
    twin.created = meta.creation_timestamp or ""
    return twin
