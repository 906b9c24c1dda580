"""Elastic roles: roles of training jobs whose operator deletes pods when their target is lowered.

A shrink removes the highest indexes, so only a suffix of a role's indexes can leave, and never an
index below its minimum. Roles of AITrainingJobs may be shrunk instead of having their pods evicted;
the trainers of a TrainingJob may not, but their target is known, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from swell.api.aitrainingjob import AITrainingJob, EdlPolicy
from swell.api.trainingjob import TrainingJob
from swell.scheduler.model.tasks import COMPLETION_INDEX, Task, TaskStatus
from swell.scheduler.model.unsaved import moment

# Labels that the operators put on pods: of AITrainingJobs, then of TrainingJobs' trainers.
JOB_LABEL: Final = "TrainingJobName"
ROLE_LABEL: Final = "TrainingJobReplicaName"
INDEX_LABEL: Final = "TrainingJobReplicaIndex"
TRAINERS_LABEL: Final = "paddle-job"
TRAINER: Final = "trainer"
# Statuses that the server can report of a pod that is neither leaving nor finished.
PRESENT: Final = frozenset({TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING})


@dataclass(eq=False, slots=True)
class ElasticRole:
    """One role: how many pods it should have (`target`), and how few it may have (`minimum`)."""

    job: str  # namespace/name, for TrainingJobs after the kind
    role: str
    minimum: int
    target: int
    may_shrink: bool
    saved_at: float | None = None  # when the job's program last saved, if it reports that
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def is_shrinkable(self) -> bool:
        """Whether the role may shrink now. A role with a succeeded pod keeps its size."""
        return self.may_shrink and not any(
            task.status is TaskStatus.SUCCEEDED for task in self.tasks.values()
        )

    def from_index(self, index: int) -> Iterator[Task]:
        """Returns the pods that a shrink to this size removes."""
        return (task for task in self.tasks.values() if index <= task.index < self.target)


class RoleMembers:
    """The roles of all training jobs, and the tasks that belong to each job."""

    def __init__(self) -> None:
        self._roles: dict[str, dict[str, ElasticRole]] = {}
        self._members: dict[str, dict[str, Task]] = {}  # tasks by training job

    def set_roles(self, training_job: str, roles: dict[str, ElasticRole]) -> None:
        self._roles[training_job] = roles

    def remove_roles(self, training_job: str) -> None:
        self._roles.pop(training_job, None)

    def note_save(self, training_job: str, saved_at: float | None) -> None:
        """Notes when a training job last saved; nothing else follows from it at once."""
        for role in self._roles.get(training_job, {}).values():
            role.saved_at = saved_at

    def of(self, training_job: str) -> Iterable[Task]:
        """Returns every task of a training job."""
        return self._members.get(training_job, {}).values()

    def join(self, task: Task, status: TaskStatus) -> TaskStatus:
        """Adds the task to its role; returns its status with regard to the target."""
        place = place_in_job(task)
        if place is None:
            return status
        self._members.setdefault(place[0], {})[task.key] = task
        task.index = place[2]
        role = task.elastic = self._roles.get(place[0], {}).get(place[1])
        if role is None:
            return status
        role.tasks[task.key] = task
        # The operator will delete it, so its room counts as being freed already.
        leaving = status in PRESENT and task.index >= role.target
        return TaskStatus.RELEASING if leaving else status

    def leave(self, task: Task) -> None:
        place = place_in_job(task)
        if place is None:
            return
        members = self._members[place[0]]
        del members[task.key]
        if not members:
            del self._members[place[0]]
        if task.elastic is not None:
            task.elastic.tasks.pop(task.key, None)


def roles_of(job: AITrainingJob) -> dict[str, ElasticRole]:
    """Returns every role of a job. Only elastic Auto roles of a job that goes on may shrink."""
    key = str(job.metadata.key)
    goes_on, saved_at = job.goes_on, last_save(job)
    return {
        name.lower(): ElasticRole(
            job=key,
            role=name.lower(),
            minimum=max(spec.minimum, 1),  # a shrink never ends a role
            # Before the operator has written a target, the spec's size counts.
            target=job.status.target_replicas.get(name.lower(), spec.size),
            may_shrink=goes_on and spec.is_elastic and spec.edl_policy is EdlPolicy.AUTO,
            saved_at=saved_at,
        )
        for name, spec in job.spec.replica_specs.items()
    }


def trainers_of(job: TrainingJob) -> dict[str, ElasticRole]:
    """Returns the role of a job's trainers, which may be evicted but not shrunk."""
    spec, asked = job.spec, job.status.trainer_target or 0
    target = min(max(asked, spec.trainer_minimum), spec.trainer_maximum)
    key = trainers_key(str(job.metadata.key))
    return {TRAINER: ElasticRole(key, TRAINER, max(spec.trainer_minimum, 1), target, False)}


def last_save(job: AITrainingJob) -> float | None:
    """Returns when the job's program last saved, by its report; None without one."""
    training = job.status.training
    save = training.last_save if training is not None else None
    return moment(save.time) if save is not None else None


def trainers_key(job: str) -> str:
    """Returns a key that differs from that of an AITrainingJob of the same name."""
    return f"TrainingJob/{job}"


def place_in_job(task: Task) -> tuple[str, str, int] | None:
    """Returns training job, role and index of a pod by its labels; None for other pods."""
    labels, namespace = task.pod.metadata.labels, task.pod.metadata.namespace
    if TRAINERS_LABEL not in labels and JOB_LABEL not in labels:
        return None
    trainers, index = labels.get(TRAINERS_LABEL), labels.get(COMPLETION_INDEX, "")
    if trainers and index.isdecimal():
        return trainers_key(f"{namespace}/{trainers}"), TRAINER, int(index)
    job, role, index = labels.get(JOB_LABEL), labels.get(ROLE_LABEL), labels.get(INDEX_LABEL, "")
    if not job or not role or not index.isdecimal():
        return None
    return f"{namespace}/{job}", role.lower(), int(index)
