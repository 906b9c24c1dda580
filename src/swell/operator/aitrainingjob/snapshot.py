"""The snapshot a decision about an AITrainingJob is made from, and questions about its pods.

A snapshot is of one moment and is never changed. The functions below say which replica a pod is,
and whether the status's restart or a resize has given it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from swell.api.aitrainingjob import (
    AITrainingJob,
    AITrainingJobStatus,
    ReplicaSpec,
    RestartScope,
)
from swell.api.core import ConfigMap, Service
from swell.api.meta import Body
from swell.api.native_groups import NativeGroup
from swell.api.pod import ContainerStatus, Pod, PodPhase
from swell.api.scheduling import PodGroup
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.gpu_states import PodDevices
from swell.operator.framework.mass_failure import MassFailure
from swell.operator.framework.reports import ReceivedReport
from swell.operator.framework.settings import NATIVE_GANGS
from swell.operator.framework.training import RELEASE, asks_for_training, objects


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod of a job, with the role and index that its name says."""

    pod: Pod
    role: str
    index: int
    restart_count: int
    # Whether its status could never be read. Then it may be in any phase, and nothing is concluded
    # from the one that it seems to be in.
    is_unread: bool = False

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def phase(self) -> PodPhase:
        return self.pod.status.phase

    @property
    def statuses(self) -> tuple[ContainerStatus, ...]:
        status = self.pod.status
        return (*status.init_container_statuses, *status.container_statuses)

    @property
    def is_leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def is_released(self) -> bool:
        """Whether it was asked to leave; then it goes, also if the reason goes away."""
        return bool(self.pod.metadata.annotations.get(RELEASE))

    @property
    def is_bound(self) -> bool:
        return bool(self.pod.spec.node_name)

    @property
    def is_finished(self) -> bool:
        return self.phase is PodPhase.SUCCEEDED or self.phase is PodPhase.FAILED


@dataclass(frozen=True)
class AITrainingJobSnapshot:
    """Everything about one job that a decision may use.

    `nodes` has those nodes of the job's pods about which something is certain; nothing is
    concluded about the others.
    """

    job: AITrainingJob
    pods: tuple[Pod, ...] = ()
    unread: frozenset[str] = frozenset()  # the names of pods whose status could never be read
    services: tuple[Service, ...] = ()
    group: PodGroup | None = None
    members: ConfigMap | None = None
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    # What is known of the devices of its pods, by the names of those that have GPUs by claims.
    devices: Mapping[str, PodDevices] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # found by validation in the spec of a new job
    priority_class_found: bool = False
    gang_served: bool = True  # whether the cluster has Volcano's PodGroup kind
    native_groups: tuple[NativeGroup, ...] = ()
    native_served: bool = False  # whether it has that of Kubernetes itself
    report: ReceivedReport | None = None  # the newest of the job's program
    # The states of those jobs that exist of which this one comes after; before it has started.
    after: Mapping[str, str] = field(default_factory=dict)
    is_awaited: bool = False  # whether a job that comes after this one has not seen its end
    # When nodes that the job blames for failures were trusted again.
    trusted: Mapping[str, str] = field(default_factory=dict)
    # The roles that could do without the nodes on which the job has failed often.
    has_alternative: frozenset[str] = frozenset()
    # The pods that wait in vain for a node, each with those that it could use and excludes.
    held_off: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mass_failure: MassFailure | None = None  # of nodes; restarts are held back until it is over
    refused: str = ""  # the latest write the API server rejected, and why
    # It has just refused a pod: it is asked for others at this time (wall time).
    no_pods_before: float = 0.0
    # The status as the API server has it, where `job` has a recovered one instead.
    stored_status: Body | None = None
    # Whether the record of a deleted job is kept, so that its object may go.
    is_recorded: bool = True
    settings: AITrainingJobSettings = field(default_factory=AITrainingJobSettings)

    @cached_property
    def roles(self) -> dict[str, ReplicaSpec]:
        """Role specs by name in lower case, as everything but the spec writes them; sorted."""
        specs = self.job.spec.replica_specs
        return {role.lower(): specs[role] for role in sorted(specs, key=str.lower)}

    @cached_property
    def everything(self) -> tuple[Replica, ...]:
        """Every pod the job owns, also one that is no replica: it is deleted with the job."""
        name = self.job.metadata.name
        return tuple(
            replica_of(pod, name, is_unread=pod.metadata.name in self.unread) for pod in self.pods
        )

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """The pods that are replicas, by role and index."""
        known = [one for one in self.everything if one.role in self.roles]
        return tuple(sorted(known, key=lambda one: (one.role, one.index)))

    @cached_property
    def is_training(self) -> bool:
        """Whether the job asks for the parts by which its programs train together."""
        every = (one for spec in self.roles.values() for one in containers_of(spec.template))
        return asks_for_training(self.job.spec.reporting, self.job.metadata, every)

    @cached_property
    def uses_native_gang(self) -> bool:
        """Whether the job's groups are those of Kubernetes itself. It keeps the kind it has."""
        if not self.settings.gang or self.group is not None:
            return False
        wants = self.settings.gang_api == NATIVE_GANGS and self.native_served
        return wants or bool(self.native_groups)

    @property
    def uses_volcano_gang(self) -> bool:
        wants = self.settings.gang_api != NATIVE_GANGS and self.gang_served
        return self.settings.gang and not self.uses_native_gang and (wants or bool(self.group))

    def of_role(self, role: str) -> tuple[Replica, ...]:
        return tuple(one for one in self.replicas if one.role == role)

    def node_of(self, replica: Replica) -> NodeState | None:
        return self.nodes.get(replica.pod.spec.node_name) if replica.is_bound else None


def containers_of(template: Body) -> Iterator[Body]:
    """The containers of a template, which is free JSON."""
    spec = template.get("spec")
    return objects(spec.get("containers")) if isinstance(spec, dict) else iter(())


def replica_of(pod: Pod, job: str, *, is_unread: bool = False) -> Replica:
    """The replica that a pod is, read from its name, which cannot be changed, unlike labels.

    A pod whose name is not of our making gets no role.
    """
    stem, _, number = pod.metadata.name.rpartition("-")
    role = stem.removeprefix(f"{job}-")
    count = pod.metadata.labels.get(labels.RESTART_COUNT, "")
    n_restarts = int(count) if is_number(count) else 0
    if role == stem or not is_number(number):
        return Replica(pod, "", 0, n_restarts, is_unread)
    return Replica(pod, role, int(number), n_restarts, is_unread)


def is_number(text: str) -> bool:
    # At most nine digits: more than any index or count has, and cheap to convert.
    return text.isascii() and text.isdecimal() and len(text) <= 9


def is_restarting(replica: Replica, status: AITrainingJobStatus) -> bool:
    """Whether the recorded restart deletes this pod."""
    restart = status.restart
    if restart is None or not covers(status, replica.role, replica.index):
        return False
    return replica.restart_count < restart.counts.get(replica.role, 0)


def is_surplus(replica: Replica, status: AITrainingJobStatus) -> bool:
    """Whether a resize has given up this pod.

    A pod that an earlier resize is deleting stays surplus even if the role has grown again: it
    will be gone, and a new pod takes its place.
    """
    if replica.index >= status.target_replicas.get(replica.role, 0):
        return True
    return (replica.is_leaving or replica.is_released) and any(
        record.role == replica.role
        and record.to <= replica.index < record.from_
        and (replica.pod.metadata.creation_timestamp or "") <= record.time
        for record in status.scale_records
    )


def covers(status: AITrainingJobStatus, role: str, index: int) -> bool:
    """Whether the recorded restart covers this replica."""
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


def current(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> tuple[Replica, ...]:
    """The pods that count: those that no restart or resize has given up."""
    # Asked many times in each decision, mostly of jobs without a restart whose pods all stay.
    restart, targets = status.restart, status.target_replicas
    return tuple(
        one
        for one in snapshot.replicas
        if one.index < targets.get(one.role, 0)
        and (restart is None or not is_restarting(one, status))
        and not is_surplus(one, status)
    )


def missing(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> Iterator[tuple[str, int]]:
    """The replicas that should exist and have no pod at all."""
    present = {(one.role, one.index) for one in snapshot.replicas}
    for role in snapshot.roles:
        for index in range(status.target_replicas.get(role, 0)):
            if (role, index) not in present:
                yield role, index
