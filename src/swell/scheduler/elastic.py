"""Roles of AITrainingJobs that may be shrunk instead of having their pods evicted.

Holds what the job says about a role. Shrinking removes the highest indexes, so only a suffix of a
role's indexes can leave, and never what is below its minimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from swell.api.aitrainingjob import FINAL, AITrainingJob, EdlPolicy
from swell.scheduler.tasks import Task, TaskStatus

JOB_LABEL: Final = "TrainingJobName"
ROLE_LABEL: Final = "TrainingJobReplicaName"
INDEX_LABEL: Final = "TrainingJobReplicaIndex"


@dataclass(eq=False, slots=True)
class ElasticRole:
    """One role: how many pods it should have, and how few it may have."""

    job: str  # namespace/name of the AITrainingJob
    role: str
    minimum: int
    target: int
    may_shrink: bool
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def is_shrinkable(self) -> bool:
        """A role with a pod that has succeeded is frozen."""
        return self.may_shrink and not any(
            task.status is TaskStatus.SUCCEEDED for task in self.tasks.values()
        )

    def from_index(self, index: int) -> Iterator[Task]:
        """The pods a shrink to this size removes."""
        return (task for task in self.tasks.values() if index <= task.index < self.target)


def roles_of(job: AITrainingJob) -> dict[str, ElasticRole]:
    """Every role with its target. Only elastic Auto roles of a job that goes on may shrink."""
    key = str(job.metadata.key)
    goes_on = job.status.ending is None and job.status.phase not in FINAL
    return {
        name.lower(): ElasticRole(
            job=key,
            role=name.lower(),
            minimum=max(spec.minimum, 1),
            target=job.status.target_replicas.get(name.lower(), spec.size),
            may_shrink=goes_on and spec.is_elastic and spec.edl_policy is EdlPolicy.AUTO,
        )
        for name, spec in job.spec.replica_specs.items()
    }


def place_in_job(task: Task) -> tuple[str, str, int] | None:
    """Training job, role and index of a pod, as its labels have them."""
    labels = task.pod.metadata.labels
    job, role, index = labels.get(JOB_LABEL), labels.get(ROLE_LABEL), labels.get(INDEX_LABEL, "")
    if not job or not role or not index.isdecimal():
        return None
    return f"{task.pod.metadata.namespace}/{job}", role.lower(), int(index)
