"""The description of a job kind, which is all that the framework knows about it.

A kind's folder has a `kind` module with a function that takes the kind's settings and returns a
`JobKindDefinition`. This module also holds what the parts of an operator are made from.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from swell.api.aitrainingjob import NodeFault
from swell.api.core import Node
from swell.api.meta import Body, Key, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.resource import ApiObject, Resource
from swell.history.settings import PlaceOf, RecordMeter
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.gpu_health import GpuInformers
from swell.operator.framework.gpu_states import PodDevices
from swell.operator.framework.malformed import JobSnapshot, MalformedRules
from swell.operator.framework.mass_failure import MassFailure
from swell.operator.framework.orphans import OrphanRules
from swell.operator.framework.reports import (
    REPORT_PACE_S,
    FetchReport,
    ReceivedReport,
    ReportTarget,
)
from swell.operator.framework.settings import OperatorSettings
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.cluster import EVERYTHING, Cluster, Selection
from swell.runtime.controller import ControllerMeter
from swell.runtime.executor import EventSink, Observer, WriteMeter
from swell.runtime.informer import Informer, InformerMeter, RunnableInformer
from swell.runtime.plan import Plan
from swell.runtime.queue import WorkQueue
from swell.runtime.reflector import InformerOptions
from swell.runtime.uncertain import AnyInformer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

T = TypeVar("T", bound=ApiObject)
JobT = TypeVar("JobT", bound=ApiObject)
JobT_contra = TypeVar("JobT_contra", bound=ApiObject, contravariant=True)
SnapshotT = TypeVar("SnapshotT", bound=JobSnapshot)
InformersT = TypeVar("InformersT", bound="JobInformers[Any]")

NodeStates = Callable[[Iterable[str]], Mapping[str, NodeState]]
DevicesOf = Callable[[Iterable[Pod]], Mapping[str, PodDevices]]


def _node_of(_: ObjectMeta, pod: Pod | None) -> Sequence[str]:
    return (pod.spec.node_name,) if pod is not None and pod.spec.node_name else ()


ON_NODE: CacheIndex[Pod] = CacheIndex("node", _node_of)


class ChildInformer(AnyInformer, Observer, Protocol):
    """An informer of child objects: the controller reads it, the executor reports answers to it."""


class JobInformers(Protocol[JobT]):
    """The informers of one job kind.

    `children` pairs each informer of child objects with the name of its index by job key, in the
    order in which they are read again when a write's outcome is unknown. `every` is all of them in
    the order they are started.
    """

    @property
    def jobs(self) -> Informer[JobT]: ...

    @property
    def pods(self) -> Informer[Pod]: ...

    @property
    def nodes(self) -> Informer[Node]: ...

    @property
    def priorities(self) -> Informer[PriorityClass]: ...

    @property
    def children(self) -> Sequence[tuple[ChildInformer, str]]: ...

    @property
    def every(self) -> Sequence[RunnableInformer]: ...


class JobMeter(Protocol[JobT_contra]):
    """The metrics that one job kind has of its own."""

    def watch(self, jobs: Callable[[], Iterable[JobT_contra]]) -> None: ...

    def counting(self, sink: EventSink) -> EventSink: ...


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """The cluster, the clock and the other dependencies that every part is made from."""

    cluster: Cluster
    clock: Clock
    random: Random
    passes: ControllerMeter | None = None
    writes: WriteMeter | None = None
    caches: InformerMeter | None = None
    records: RecordMeter | None = None
    # Draws the secret of a job whose programs train together.
    draw: Callable[[], str] = secrets.token_hex
    # Asks a pod for its job's report; without it no job is asked.
    fetch_report: FetchReport | None = None
    # A job is asked this often, in seconds.
    report_pace_s: float = REPORT_PACE_S

    def informer(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *indexes: CacheIndex[T],
        options: InformerOptions,
    ) -> Informer[T]:
        return Informer(
            self.cluster,
            resource,
            clock=self.clock,
            random=self.random,
            selection=selection,
            indexes=indexes,
            options=options,
            meter=self.caches,
        )

    def queue(self) -> WorkQueue[Key]:
        return WorkQueue(clock=self.clock, random=self.random)


@dataclass(frozen=True, slots=True)
class SnapshotInputs:
    """Parts of a snapshot that no informer has.

    `refused` is the job's latest write that the API server rejected, and why; empty when none. If
    it was the create of a pod, others are of no use before `no_pods_before` (wall time).
    `stored_status` is the status on the server where that cannot be decoded.
    """

    refused: str
    node_states: NodeStates
    stored_status: Body | None = None
    # The newest report of the job's program, if it reports.
    report: ReceivedReport | None = None
    # Whether the object of a deleted job may go: its record is kept, or none is.
    is_recorded: bool = True
    # Many nodes are not ready at once: restarts are held back for a while.
    mass_failure: MassFailure | None = None
    # What is known of the devices of pods, by the names of those that have GPUs.
    devices_of: DevicesOf = lambda _: {}
    no_pods_before: float = 0.0


@dataclass(frozen=True, slots=True)
class FaultRules(Generic[JobT]):
    """How the failures that jobs blame on nodes are found.

    `index` is the index of jobs by node; `nodes_of` and `faults_of` read one job.
    """

    index: str
    nodes_of: Callable[[JobT], Iterable[str]]
    faults_of: Callable[[JobT], Iterable[NodeFault]]


@dataclass(frozen=True, slots=True)
class KindNames:
    """The names under which one kind's operator shows up beside the others in a process."""

    controller: str  # in metrics, logs and the names of services
    service: str  # in the process' manager
    readiness: str  # the readiness check
    lease_suffix: str  # appended to the lease of leader election


@dataclass(frozen=True, slots=True)
class JobKindDefinition(Generic[JobT, SnapshotT, InformersT]):
    """One job kind. The framework runs its operator from this value alone.

    `snapshot` reads caches and awaits nothing; `decide` is pure. `jobs_of` names the jobs to look
    at again when the node of a pod changes. `children_of` selects a job's children on the server,
    and may select more than those. Children change in bursts, so a job is looked at `settle_s`
    after the first change instead of once for each. `report_target` names the pods that are asked
    for the report of a job's program; None where there is nothing to ask; `job_of` is a pod's job.
    `manager_of` is the `managedBy` of a job; `follow_others` has jobs woken that a change of
    another one concerns.
    """

    names: KindNames
    resource: Resource[JobT]
    settings: OperatorSettings
    informers: Callable[[ControllerDependencies], InformersT]
    snapshot: Callable[[JobT, InformersT, SnapshotInputs], SnapshotT]
    decide: Callable[[SnapshotT, float], Plan]
    malformed: MalformedRules[JobT, SnapshotT]
    orphans: OrphanRules
    children_of: Callable[[Key], Selection]
    jobs_of: Callable[[Pod], Iterable[Key]]
    settle_s: float
    manager_of: Callable[[JobT], str]
    follow_others: Callable[[Informer[JobT], Callable[[Key], None]], None] | None = None
    report_target: Callable[[JobT, InformersT], ReportTarget | None] | None = None
    job_of: Callable[[Pod], Key | None] = lambda _: None
    # The failures that its jobs blame on nodes; None for a kind whose jobs blame none.
    fault_rules: FaultRules[JobT] | None = None
    # By what its operator follows how GPUs are; None for a kind that does nothing about them.
    gpu_informers: Callable[[InformersT], GpuInformers] | None = None
    meter: Callable[[CollectorRegistry], JobMeter[JobT]] | None = None
    # The job, role and index of a pod, for the record of the job's life.
    place_of: PlaceOf | None = None


# Kinds of different types stand in one list; no single choice of type parameters fits them all.
AnyJobKind = JobKindDefinition[Any, Any, Any]


def owned_by(informer: Informer[T] | None, key: Key, uid: Uid) -> T | None:
    """The object under a key, if the owner with this UID controls it and not a namesake."""
    found = informer.get(key) if informer is not None else None
    owner = found.metadata.controller if found is not None else None
    return found if owner is not None and owner.uid == uid else None
