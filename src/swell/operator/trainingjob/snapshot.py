"""The snapshot a decision about a TrainingJob is made from, and questions about its pods.

A snapshot is of one moment and is never changed. The functions below also read the status of the
trainer Job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from swell.api.core import ConfigMap
from swell.api.meta import Body, ObjectMeta
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod, PodPhase
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import FrameworkType, RoleSpec, TrainingJob
from swell.api.workloads import Job, ReplicaSet
from swell.operator.framework.children import GANG_ANNOTATION
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.reports import ReceivedReport
from swell.operator.framework.settings import NATIVE_GANGS, VOLCANO_GANGS
from swell.operator.trainingjob.labels import (
    COMPLETION_INDEX,
    JOB_UID,
    ROLE_LABELS,
    Role,
    workload_name,
)
from swell.operator.trainingjob.settings import TrainingJobSettings

COMPLETE, FAILED = "Complete", "Failed"
DISRUPTED = "DisruptionTarget"
_FINISHED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_INDEX_DIGITS_MAX = 9  # more digits than any index has


@dataclass(frozen=True)
class TrainingJobSnapshot:
    """Everything about one job that a decision may use.

    The workloads, the group and the addresses are those that this job controls, by UID; `pods` are
    those that carry its UID as a label.
    """

    job: TrainingJob
    master: ReplicaSet | None = None
    pserver: ReplicaSet | None = None
    trainer: Job | None = None
    group: PodGroup | None = None
    native_group: NativeGroup | None = None
    addresses: ConfigMap | None = None
    members: ConfigMap | None = None
    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # found by validation in the spec of a new job
    priority_class_found: bool = False
    gang_served: bool = True  # whether the cluster has Volcano's PodGroup kind
    native_served: bool = False  # whether it has that of Kubernetes itself
    refused: str = ""  # the latest write the API server rejected, and why
    report: ReceivedReport | None = None  # the newest of the trainers' program, if it reports
    # The status as the API server has it, where `job` has a recovered one instead.
    stored_status: Body | None = None
    # The states of those jobs that exist of which this one comes after; before it has begun.
    after: Mapping[str, str] = field(default_factory=dict)
    is_awaited: bool = False  # whether a job that comes after this one has not seen its end
    # Whether the record of a deleted job is kept, so that its object may go.
    is_recorded: bool = True
    settings: TrainingJobSettings = field(default_factory=TrainingJobSettings)

    @cached_property
    def roles(self) -> dict[Role, RoleSpec]:
        """The roles of this job, in the order in which they are created."""
        spec = self.job.spec
        wanted = {
            Role.MASTER: (spec.fault_tolerant, spec.master),
            Role.PSERVER: (spec.has_pservers, spec.pserver),
            Role.TRAINER: (True, spec.trainer),
        }
        return {role: held for role, (is_there, held) in wanted.items() if is_there}

    @property
    def replica_sets(self) -> dict[Role, ReplicaSet]:
        """The ReplicaSets that exist, by role."""
        found = {Role.MASTER: self.master, Role.PSERVER: self.pserver}
        return {role: one for role, one in found.items() if one is not None}

    @property
    def has_begun(self) -> bool:
        """Whether the job has run, or has what it needs for it: then it waits for no other."""
        has_run = self.job.status.start_time is not None
        return has_run or bool(self.trainer or self.replica_sets or self.pods)

    @property
    def has_group(self) -> bool:
        """Whether the job gets a group of its own: its spec names no other, and gangs are on."""
        return bool(self.gang_api) and not self.job.spec.pod_group_name

    @cached_property
    def gang_api(self) -> str:
        """Whose PodGroup the pods name, Volcano's or that of Kubernetes itself; empty for none.

        A job keeps the kind that it has: a workload names its group in a template that stays.
        """
        if not self.settings.gang:
            return ""
        held = [one.spec.template for one in (*self.replica_sets.values(), self.trainer) if one]
        is_served = {VOLCANO_GANGS: self.gang_served, NATIVE_GANGS: self.native_served}
        if self.native_group is not None or any(map(_names_native_group, held)):
            kind = NATIVE_GANGS
        elif self.group is not None or any(map(_names_group, held)):
            kind = VOLCANO_GANGS
        else:
            kind = self.settings.gang_api
            if held and kind == NATIVE_GANGS:
                return ""  # a group that no pod names would wait for ever
        return kind if is_served[kind] else ""

    @property
    def group_name(self) -> str:
        """The PodGroup of the pods: the one that the spec names, or the job's own."""
        return self.job.spec.pod_group_name or self.job.metadata.name

    @property
    def indexes_pservers(self) -> bool:
        """Whether pservers get index labels: with framework type `multi` they do."""
        framework = self.job.spec.frame_work
        return framework is not None and framework.type is FrameworkType.MULTI

    def pods_of(self, role: Role) -> tuple[Pod, ...]:
        """Every pod that a workload of this role created, also a workload that is gone."""
        return tuple(pod for pod in self.pods if self._is_of(pod, role))

    @cached_property
    def trainers(self) -> tuple[Pod, ...]:
        """The pods of the trainer Job that exists now."""
        job = self.trainer
        return () if job is None else tuple(_controlled(self.pods_of(Role.TRAINER), job.metadata))

    @cached_property
    def pservers(self) -> tuple[Pod, ...]:
        """The pods of the pserver ReplicaSet that exists now."""
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


def _names_native_group(template: Body) -> bool:
    return bool((template.get("spec") or {}).get("schedulingGroup"))


def _names_group(template: Body) -> bool:
    notes = (template.get("metadata") or {}).get("annotations") or {}
    return GANG_ANNOTATION in notes


def is_leaving(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in _FINISHED


def is_running(pod: Pod) -> bool:
    return pod.status.phase is PodPhase.RUNNING and not is_leaving(pod.metadata)


def was_disrupted(pod: Pod) -> bool:
    """Whether Kubernetes itself ended the pod: preempted, evicted, or lost with its node."""
    return any(c.type == DISRUPTED and c.status == "True" for c in pod.status.conditions)


def completion_index(pod: Pod) -> int | None:
    """The index of a trainer's pod; None without a valid one."""
    return number_in(pod.metadata.annotations.get(COMPLETION_INDEX, ""))


def is_over(job: Job) -> bool:
    """Whether a Job has ended: none of its pods is active or will be replaced."""
    return has_condition(job, COMPLETE) or has_condition(job, FAILED)


def has_condition(job: Job, kind: str) -> bool:
    return any(c.type == kind and c.status == "True" for c in job.status.conditions)


def read_indexes(text: str | None, below: int) -> frozenset[int]:
    """The indexes in a text of a Job's status, such as `0-3,5`, that are lower than `below`."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        low = number_in(first)
        high = number_in(last) if dash else low
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


def number_in(text: str) -> int | None:
    """The number that a text from outside holds; None if it holds none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS_MAX
    return int(text) if is_number else None
