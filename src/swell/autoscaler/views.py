"""Jobs, pods and nodes reduced to what sizing needs; both kinds of job have one form. Values only.

Each object is read by itself; `ledger` and `job_state` put pods and jobs together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from swell.api.core import Node
from swell.api.meta import Key, Uid
from swell.api.pod import Pod, PodPhase, PodSpec
from swell.api.quantity import QuantityError
from swell.api.times import parse_time
from swell.api.trainingjob import COMPLETION_INDEX, JOB_UID_LABEL, ROLE_LABELS
from swell.autoscaler.goodput.evidence import SpeedEvidence
from swell.autoscaler.needs import Amounts, Needs, NeedsReader
from swell.scheduler.model.elastic import INDEX_LABEL, JOB_LABEL, ROLE_LABEL

TRAINER = "trainer"

# Labels are text from outside: a number of more digits is taken for no index.
_INDEX_DIGITS_MAX = 9


class JobKind(StrEnum):
    """The kinds of job that have elastic roles; the values are the kinds of the API."""

    AI_TRAINING_JOB = "AITrainingJob"
    TRAINING_JOB = "TrainingJob"


class JobId(NamedTuple):
    """Identifies a job. Its text is `namespace/name`, with the kind in front for TrainingJobs."""

    namespace: str
    name: str
    kind: JobKind = JobKind.AI_TRAINING_JOB

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        prefix = "" if self.kind is JobKind.AI_TRAINING_JOB else f"{self.kind}/"
        return f"{prefix}{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Resize:
    """One scale record of either kind of job."""

    at: float  # wall time, seconds
    role: str
    before: int
    after: int
    by: str
    reason: str = ""
    for_group: str = ""

    @property
    def is_raise(self) -> bool:
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class ReplicaTemplate:
    """The labels and the spec from which the operator makes the pods of a role."""

    labels: Mapping[str, str]
    spec: PodSpec


@dataclass(frozen=True, slots=True)
class AutoscalerRole:
    """One role of a job. `target` is the number of replicas that it should have now."""

    name: str
    minimum: int
    maximum: int
    target: int
    gang_minimum: int  # how many must start together
    is_auto: bool  # whether the autoscaler may resize it at all
    replaces_failed: bool  # whether a failed pod comes again
    is_indexed: bool  # whether pods are replicas by index, or only by number
    needs: Needs
    template: ReplicaTemplate


@dataclass(frozen=True, slots=True)
class AutoscalerJob:
    """One job. It is live unless it has ended, is ending, or is being deleted."""

    id: JobId
    uid: Uid
    generation: int
    is_live: bool
    is_waiting: bool  # by its phase it waits for room
    is_creating: bool  # by its phase it may wait for room; its pods decide
    is_running: bool
    roles: tuple[AutoscalerRole, ...]
    group: Key
    queue: str  # which its group names, or will name once there is one
    priority: str  # the name of a priority class, or empty
    created: str
    resizes: tuple[Resize, ...]
    speed: SpeedEvidence | None = None  # what its program has reported of itself
    reports: bool = False  # whether its program is asked for reports
    safe_since: float = 0.0  # its last save, else its start: work since then is lost with pods
    program: str = ""  # equal for runs of the same program in one namespace
    shares_profile: bool = False  # it names its program itself, to share what is measured
    running_since: float | None = None
    time_limit_s: float | None = None  # from then on
    due: float | None = None  # when it should be done, by its own spec
    is_leaving: bool = False  # it is being deleted, and its pods will be after it
    # Whether it may be stopped for a while: its program saves, and its user has not refused.
    may_yield: bool = False
    yielded_since: float | None = None  # while it has given its devices to others
    is_moving: bool = False  # it has stopped for a moment, to be placed anew with its target

    def last_resize(self, role: str) -> Resize | None:
        return next((one for one in reversed(self.resizes) if one.role == role), None)


@dataclass(frozen=True, slots=True)
class ReplicaClaim:
    """The replica that a pod is by its labels; the index is None for roles without indexes."""

    job: JobId
    uid: Uid  # of the job; empty if the pod does not have it
    role: str
    index: int | None


@dataclass(frozen=True, slots=True)
class AutoscalerPod:
    """One pod, with the replica it belongs to if it is one of a job."""

    key: Key
    node: str
    needs: Needs
    phase: PodPhase
    is_leaving: bool
    created_at: float
    claim: ReplicaClaim | None
    is_unreadable: bool = False  # it needs more than `needs` says, and not known how much

    @property
    def is_finished(self) -> bool:
        return self.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}

    @property
    def is_bound(self) -> bool:
        """Whether the pod has a node and keeps it."""
        return bool(self.node) and not self.is_leaving and self.phase is not PodPhase.FAILED


@dataclass(frozen=True, slots=True)
class AutoscalerNode:
    """One node. It counts if it is ready and not cordoned; otherwise it offers no room."""

    name: str
    is_counted: bool
    allocatable: Amounts
    n_pods_max: int
    node: Node
    is_unreadable: bool = False  # it offers no room until it can be read

    def differs_from(self, other: AutoscalerNode) -> bool:
        """Whether anything differs that decides which pods fit; heartbeats do not count."""
        return (
            self.is_counted != other.is_counted
            or self.is_unreadable != other.is_unreadable
            or self.allocatable != other.allocatable
            or self.n_pods_max != other.n_pods_max
            or self.node.metadata.labels != other.node.metadata.labels
            or self.node.spec.taints != other.node.spec.taints
        )


def view_node(node: Node, reader: NeedsReader, *, is_unreadable: bool = False) -> AutoscalerNode:
    is_ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    try:
        allocatable = reader.of_node(node.status.allocatable)
        n_pods_max = reader.pod_slots_of_node(node.status.allocatable)
    except QuantityError:
        allocatable, n_pods_max, is_unreadable = {}, 0, True
    return AutoscalerNode(
        name=node.metadata.name,
        is_counted=is_ready and not node.spec.unschedulable,
        allocatable=allocatable,
        n_pods_max=n_pods_max,
        node=node,
        is_unreadable=is_unreadable,
    )


def view_pod(pod: Pod, reader: NeedsReader, *, is_unreadable: bool = False) -> AutoscalerPod:
    meta = pod.metadata
    try:
        needs = reader.of(pod.spec)
    except QuantityError:
        needs, is_unreadable = reader.of(PodSpec()), True
    return AutoscalerPod(
        key=meta.key,
        node=pod.spec.node_name,
        needs=needs,
        phase=pod.status.phase,
        is_leaving=meta.deletion_timestamp is not None,
        created_at=parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        claim=_claim(pod),
        is_unreadable=is_unreadable,
    )


def _claim(pod: Pod) -> ReplicaClaim | None:
    owner = pod.metadata.controller
    if owner is not None and owner.kind == JobKind.AI_TRAINING_JOB:
        return _replica_claim(pod, owner.name, owner.uid)
    # Written by hand, as in files for `swell plan autoscale`: the label alone counts.
    if owner is None and JOB_LABEL in pod.metadata.labels:
        return _replica_claim(pod, pod.metadata.labels[JOB_LABEL], Uid(""))
    return _workload_claim(pod)


def _replica_claim(pod: Pod, job: str, uid: Uid) -> ReplicaClaim | None:
    """Read the replica of an AITrainingJob's pod from its labels, or else from its name."""
    labels = pod.metadata.labels
    stem, _, number = pod.metadata.name.rpartition("-")
    role = labels.get(ROLE_LABEL, "").lower() or stem.removeprefix(f"{job}-")
    index = _index(labels.get(INDEX_LABEL, number))
    if not role or index is None:
        return None
    return ReplicaClaim(JobId(pod.metadata.namespace, job), uid, role, index)


def _workload_claim(pod: Pod) -> ReplicaClaim | None:
    """Read the replica of a TrainingJob's pod, which names its job in a label."""
    labels = pod.metadata.labels
    for role, label in ROLE_LABELS.items():
        if label in labels:
            index = None
            if role == TRAINER:
                # Newer versions of Kubernetes set a label, all of them the annotation.
                stated = labels.get(COMPLETION_INDEX, "")
                index = _index(stated or pod.metadata.annotations.get(COMPLETION_INDEX, ""))
                if index is None:
                    return None
            job = JobId(pod.metadata.namespace, labels[label], JobKind.TRAINING_JOB)
            return ReplicaClaim(job, Uid(labels.get(JOB_UID_LABEL, "")), role, index)
    return None


def _index(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS_MAX
    return int(text) if is_number else None
