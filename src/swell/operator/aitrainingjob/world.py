"""What a decision about a job sees: the job, what belongs to it, and the nodes it runs on.

Immutable, of one moment. Also says of each pod which replica it is and what state it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobStatus, ReplicaSpec, RestartScope
from swell.api.core import ConfigMap, Service
from swell.api.pod import Pod, PodPhase
from swell.api.scheduling import PodGroup
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.settings import Settings
from swell.operator.framework.fencing import NodeState


@dataclass(frozen=True, slots=True)
class Refused:
    """A write the API server did not want; trying again before `retry_at` is of no use."""

    what: str
    reason: str
    message: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod of a job, known by its name."""

    pod: Pod
    role: str
    index: int
    restart_count: int

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def phase(self) -> PodPhase:
        return self.pod.status.phase

    @property
    def is_leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def is_bound(self) -> bool:
        return bool(self.pod.spec.node_name)

    @property
    def is_finished(self) -> bool:
        return self.phase is PodPhase.SUCCEEDED or self.phase is PodPhase.FAILED


@dataclass(frozen=True)
class World:
    """Everything about one job that a decision may look at.

    `nodes` has the nodes of the job's pods; of one that is missing there nothing is concluded.
    """

    job: AITrainingJob
    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    group: PodGroup | None = None
    members: ConfigMap | None = None
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # what validation has against the spec
    priority_class_found: bool = False
    gang_served: bool = True  # whether the cluster has the PodGroup kind
    refused: Refused | None = None
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def roles(self) -> dict[str, ReplicaSpec]:
        """By name in lower case, which is how everything but the spec writes them; sorted."""
        specs = self.job.spec.replica_specs
        return {role.lower(): specs[role] for role in sorted(specs, key=str.lower)}

    @cached_property
    def everything(self) -> tuple[Replica, ...]:
        """Every pod the job owns, also one that is no replica: it ends when the job does."""
        return tuple(_replica(pod, self.job.metadata.name) for pod in self.pods)

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """The pods that are replicas, by role and index."""
        known = [one for one in self.everything if one.role in self.roles]
        return tuple(sorted(known, key=lambda one: (one.role, one.index)))

    def of_role(self, role: str) -> tuple[Replica, ...]:
        return tuple(one for one in self.replicas if one.role == role)

    def node_of(self, replica: Replica) -> NodeState | None:
        return self.nodes.get(replica.pod.spec.node_name) if replica.is_bound else None


def _replica(pod: Pod, job: str) -> Replica:
    """Read by its name, which nobody can change; a name that is none of ours has no role."""
    stem, _, number = pod.metadata.name.rpartition("-")
    role = stem.removeprefix(f"{job}-")
    count = pod.metadata.labels.get(labels.RESTART_COUNT, "")
    n_restarts = int(count) if _is_number(count) else 0
    if role == stem or not _is_number(number):
        return Replica(pod, "", 0, n_restarts)
    return Replica(pod, role, int(number), n_restarts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def is_restarting(replica: Replica, status: AITrainingJobStatus) -> bool:
    """Whether the recorded restart wants this pod gone."""
    restart = status.restart
    if restart is None or not covers(status, replica.role, replica.index):
        return False
    return replica.restart_count < restart.counts.get(replica.role, 0)


def is_surplus(replica: Replica, status: AITrainingJobStatus) -> bool:
    """Whether a resize has given up this pod.

    One that a former resize is taking down is surplus even if the role has grown again: it is
    still on its way out, and another one takes its place.
    """
    if replica.index >= status.target_replicas.get(replica.role, 0):
        return True
    return replica.is_leaving and any(
        record.role == replica.role
        and record.to <= replica.index < record.from_
        and (replica.pod.metadata.creation_timestamp or "") <= record.time
        for record in status.scale_records
    )


def covers(status: AITrainingJobStatus, role: str, index: int) -> bool:
    """Whether the recorded restart is about this replica."""
    restart = status.restart
    if restart is None:
        return False
    match restart.scope:
        case RestartScope.ALL:
            return True
        case RestartScope.REPLICA:
            return role == restart.role
        case RestartScope.POD:
            return role == restart.role and index in restart.indexes


def current(world: World, status: AITrainingJobStatus) -> tuple[Replica, ...]:
    """The pods that count: those no restart or resize has given up."""
    return tuple(
        one
        for one in world.replicas
        if not is_restarting(one, status) and not is_surplus(one, status)
    )


def missing(world: World, status: AITrainingJobStatus) -> Iterator[tuple[str, int]]:
    """Replicas that should exist and have no pod at all."""
    present = {(one.role, one.index) for one in world.replicas}
    for role in world.roles:
        for index in range(status.target_replicas.get(role, 0)):
            if (role, index) not in present:
                yield role, index
