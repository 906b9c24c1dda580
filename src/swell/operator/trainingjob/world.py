"""What a decision about a TrainingJob sees: the job, its workloads and their pods.

Immutable, of one moment. Also says what the trainer Job's status means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from swell.api.meta import ObjectMeta
from swell.api.pod import Pod, PodPhase
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import FrameworkType, RoleSpec, TrainingJob
from swell.api.workloads import Job, ReplicaSet
from swell.operator.framework.fencing import NodeState
from swell.operator.trainingjob.labels import (
    COMPLETION_INDEX,
    JOB_UID,
    ROLE_LABELS,
    Role,
    workload_name,
)
from swell.operator.trainingjob.settings import Settings

COMPLETE, FAILED = "Complete", "Failed"
DISRUPTED = "DisruptionTarget"
_FINISHED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_INDEX_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Refused:
    """A write the API server did not want."""

    what: str
    message: str


@dataclass(frozen=True)
class World:
    """Everything about one job that a decision may look at.

    The workloads and the group are this very job's, known by UID; `pods` are those that carry its
    UID as a label.
    """

    job: TrainingJob
    master: ReplicaSet | None = None
    pserver: ReplicaSet | None = None
    trainer: Job | None = None
    group: PodGroup | None = None
    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, NodeState] = field(default_factory=dict)  # of which something is certain
    problems: tuple[str, ...] = ()  # what validation has against the spec
    priority_class_found: bool = False
    gang_served: bool = True  # whether the cluster has the PodGroup kind
    refused: Refused | None = None
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def roles(self) -> dict[Role, RoleSpec]:
        """The roles this job has, in the order in which they are created."""
        spec = self.job.spec
        wanted = {
            Role.MASTER: (spec.fault_tolerant, spec.master),
            Role.PSERVER: (spec.has_pservers, spec.pserver),
            Role.TRAINER: (True, spec.trainer),
        }
        return {role: held for role, (is_there, held) in wanted.items() if is_there}

    @property
    def replica_sets(self) -> dict[Role, ReplicaSet]:
        """Those there are."""
        found = {Role.MASTER: self.master, Role.PSERVER: self.pserver}
        return {role: one for role, one in found.items() if one is not None}

    @property
    def has_group(self) -> bool:
        """Whether a group of our own is wanted: no other is named, and there is the kind."""
        return self.is_gang and not self.job.spec.pod_group_name

    @property
    def is_gang(self) -> bool:
        return self.settings.gang and self.gang_served

    @property
    def group_name(self) -> str:
        return self.job.spec.pod_group_name or self.job.metadata.name

    @property
    def indexes_pservers(self) -> bool:
        framework = self.job.spec.frame_work
        return framework is not None and framework.type is FrameworkType.MULTI

    def pods_of(self, role: Role) -> tuple[Pod, ...]:
        """Every pod a workload of this role made, also one that is there no more."""
        return tuple(pod for pod in self.pods if self._is_of(pod, role))

    @cached_property
    def trainers(self) -> tuple[Pod, ...]:
        """The pods of the trainer Job that is there now."""
        job = self.trainer
        return () if job is None else tuple(_controlled(self.pods_of(Role.TRAINER), job.metadata))

    @cached_property
    def pservers(self) -> tuple[Pod, ...]:
        """The pods of the pserver ReplicaSet that is there now."""
        held = self.pserver
        return () if held is None else tuple(_controlled(self.pods_of(Role.PSERVER), held.metadata))

    def _is_of(self, pod: Pod, role: Role) -> bool:
        meta, owner = pod.metadata, pod.metadata.controller
        return (
            owner is not None
            and owner.name == workload_name(self.job.metadata.name, role)
            and meta.labels.get(JOB_UID) == self.job.metadata.uid
            and ROLE_LABELS[role] in meta.labels
        )


def is_leaving(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in _FINISHED


def is_running(pod: Pod) -> bool:
    return pod.status.phase is PodPhase.RUNNING and not is_leaving(pod.metadata)


def was_disrupted(pod: Pod) -> bool:
    """Preempted, evicted, or lost with its node: nothing the trainer is to blame for."""
    return any(c.type == DISRUPTED and c.status == "True" for c in pod.status.conditions)


def completion_index(pod: Pod) -> int | None:
    """Which trainer a pod is; None without a proper index."""
    return _number(pod.metadata.annotations.get(COMPLETION_INDEX, ""))


def is_over(job: Job) -> bool:
    """Whether a Job has ended: nothing of it is active or to be replaced."""
    return has_condition(job, COMPLETE) or has_condition(job, FAILED)


def has_condition(job: Job, kind: str) -> bool:
    return any(c.type == kind and c.status == "True" for c in job.status.conditions)


def read_indexes(text: str | None, below: int) -> frozenset[int]:
    """Indexes as a Job's status writes them, `0-3,5`; those at or above `below` are left out."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if low is not None and high is not None:
            found += range(low, min(high, below - 1) + 1)
    return frozenset(found)


def completed_indexes(job: Job) -> frozenset[int]:
    return read_indexes(job.status.completed_indexes, job.spec.completions or 0)


def failed_indexes(job: Job) -> frozenset[int]:
    """The indexes that will not be tried again."""
    return read_indexes(job.status.failed_indexes, job.spec.completions or 0)


def _controlled(pods: tuple[Pod, ...], owner: ObjectMeta) -> Iterator[Pod]:
    for pod in pods:
        held = pod.metadata.controller
        if held is not None and held.uid == owner.uid:
            yield pod


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS_MAX
    return int(text) if is_number else None
