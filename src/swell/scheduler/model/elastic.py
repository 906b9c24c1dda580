"""Roles whose pods leave by themselves when the job's target is lowered.

Holds what the job says about a role. Shrinking removes the highest indexes, so only a suffix of a
role's indexes can leave, and never what is below its minimum. Roles of AITrainingJobs may be shrunk
instead of having their pods evicted; of TrainingJobs' trainers only the target is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob, EdlPolicy
from swell.api.trainingjob import TrainingJob
from swell.scheduler.model.tasks import COMPLETION_INDEX, Task, TaskStatus

JOB_LABEL: Final = "TrainingJobName"
ROLE_LABEL: Final = "TrainingJobReplicaName"
INDEX_LABEL: Final = "TrainingJobReplicaIndex"
TRAINERS_LABEL: Final = "paddle-job"
TRAINER: Final = "trainer"


@dataclass(eq=False, slots=True)
class ElasticRole:
    """One role: how many pods it should have, and how few it may have."""

    job: str  # namespace/name, for TrainingJobs after the kind
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
    goes_on = job.status.ending is None and job.status.phase not in FINAL_PHASES
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


def trainers_of(job: TrainingJob) -> dict[str, ElasticRole]:
    """The role of the trainers, which may be evicted but not shrunk."""
    spec, asked = job.spec, job.status.trainer_target or 0
    target = min(max(asked, spec.trainer_minimum), spec.trainer_maximum)
    key = trainers_key(str(job.metadata.key))
    return {TRAINER: ElasticRole(key, TRAINER, max(spec.trainer_minimum, 1), target, False)}


def trainers_key(job: str) -> str:
    """A TrainingJob may have the name of an AITrainingJob."""
    return f"TrainingJob/{job}"


def place_in_job(task: Task) -> tuple[str, str, int] | None:
    """Training job, role and index of a pod, as its labels have them."""
    labels, namespace = task.pod.metadata.labels, task.pod.metadata.namespace
    trainers, index = labels.get(TRAINERS_LABEL), labels.get(COMPLETION_INDEX, "")
    if trainers and index.isdecimal():
        return trainers_key(f"{namespace}/{trainers}"), TRAINER, int(index)
    job, role, index = labels.get(JOB_LABEL), labels.get(ROLE_LABEL), labels.get(INDEX_LABEL, "")
    if not job or not role or not index.isdecimal():
        return None
    return f"{namespace}/{job}", role.lower(), int(index)
