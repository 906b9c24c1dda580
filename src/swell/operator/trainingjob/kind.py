"""The TrainingJob kind as the framework runs it: informers, snapshots, and the rules of the kind.

Decides nothing: `decide` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from swell.api.codec import convert, to_body
from swell.api.core import ConfigMap, Node
from swell.api.injection import REPORT_ANNOTATION
from swell.api.kinds import (
    CONFIG_MAPS,
    JOBS,
    NATIVE_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import FINAL_PHASES, TrainingJob, TrainingJobStatus
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.api.validation import validate
from swell.api.workloads import Job, ReplicaSet
from swell.history.places import training_job_place
from swell.operator.framework.after import AfterOthers
from swell.operator.framework.kind import (
    ON_NODE,
    ChildInformer,
    ControllerDependencies,
    JobKindDefinition,
    KindNames,
    SnapshotInputs,
    owned_by,
)
from swell.operator.framework.malformed import MalformedRules
from swell.operator.framework.orphans import OrphanRules
from swell.operator.framework.reports import ReportSource, ReportTarget
from swell.operator.framework.training import REPORT_TOKEN, asked_port, objects
from swell.operator.trainingjob.cleanup import delete_training_job
from swell.operator.trainingjob.decide import after_the_end, decide
from swell.operator.trainingjob.labels import AFTER as AFTER_MARK
from swell.operator.trainingjob.labels import (
    JOB_NAME,
    JOB_UID,
    ROLE_LABELS,
    Role,
    addresses_name,
    members_name,
    workload_name,
)
from swell.operator.trainingjob.membership import ROLE
from swell.operator.trainingjob.metrics import TrainingJobMetrics
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    completion_index,
    is_leaving,
    is_running,
)
from swell.operator.trainingjob.status import fail_malformed
from swell.runtime.cache import CacheIndex
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.informer import Informer, RunnableInformer, by_controller_key
from swell.runtime.reflector import GATED_RECHECK_S, InformerOptions

# Pods and the counts in their workloads' statuses change in bursts.
SETTLE_S = 0.2
OWNED = by_controller_key(TRAINING_JOBS.kind)


def _job_key(meta: ObjectMeta, _: object) -> Iterable[Key]:
    name = meta.labels.get(JOB_NAME)
    return (Key(meta.namespace, name),) if name else ()


def _job_uid(meta: ObjectMeta, _: object) -> Iterable[str]:
    uid = meta.labels.get(JOB_UID)
    return (uid,) if uid else ()


# The owner of a pod is a workload; the pod's labels name the job.
OF_JOB: CacheIndex[object] = CacheIndex("job", _job_key)
OF_JOB_UID: CacheIndex[object] = CacheIndex("job UID", _job_uid)
# Jobs by those that they come after.
AFTER: AfterOthers[TrainingJob] = AfterOthers(FINAL_PHASES, AFTER_MARK)

NAMES = KindNames(
    "trainingjob", "TrainingJob operator", "TrainingJob caches", lease_suffix="-trainingjob"
)

ORPHANS = OrphanRules(
    jobs=TRAINING_JOBS,
    kinds=(PODS, REPLICA_SETS, JOBS, CONFIG_MAPS, POD_GROUPS, NATIVE_GROUPS),
    label=JOB_UID,
    pod_owners=(REPLICA_SETS, JOBS),
    uid_label=JOB_UID,
    # By default Kubernetes keeps the pods of a Job that is deleted.
    propagation="Background",
)
# The original controller gave its objects these labels with the job's name, and no owner.
ADOPTING = replace(ORPHANS, former_labels=tuple(ROLE_LABELS.values()))


def training_job_kind(
    settings: TrainingJobSettings,
) -> JobKindDefinition[TrainingJob, TrainingJobSnapshot, TrainingJobInformers]:
    """The kind with these settings."""
    return JobKindDefinition(
        names=NAMES,
        resource=TRAINING_JOBS,
        settings=settings,
        informers=partial(new_informers, settings=settings),
        snapshot=partial(take_snapshot, settings=settings),
        decide=decide,
        malformed=MALFORMED,
        orphans=ADOPTING if settings.adopt_original else ORPHANS,
        children_of=_children_of,
        jobs_of=_jobs_of,
        settle_s=SETTLE_S,
        manager_of=lambda job: job.spec.managed_by,
        follow_others=AFTER.follow,
        report_target=report_target,
        job_of=lambda pod: next(iter(_job_key(pod.metadata, pod)), None),
        meter=TrainingJobMetrics,
        place_of=training_job_place,
    )


@dataclass(frozen=True, slots=True)
class TrainingJobInformers:
    """The informers of the kind."""

    jobs: Informer[TrainingJob]
    replica_sets: Informer[ReplicaSet]
    batch_jobs: Informer[Job]
    pods: Informer[Pod]
    groups: Informer[PodGroup]
    native_groups: Informer[NativeGroup] | None
    addresses: Informer[ConfigMap]
    priorities: Informer[PriorityClass]
    nodes: Informer[Node]

    @property
    def children(self) -> list[tuple[ChildInformer, str]]:
        """Each informer of children, with its index by job key."""
        owned: list[ChildInformer] = [
            self.replica_sets,
            self.batch_jobs,
            self.groups,
            self.addresses,
            *([self.native_groups] if self.native_groups is not None else ()),
        ]
        return [*((informer, OWNED.name) for informer in owned), (self.pods, OF_JOB.name)]

    @property
    def every(self) -> list[RunnableInformer]:
        """All informers in the order they are started."""
        workloads: list[RunnableInformer] = [self.replica_sets, self.batch_jobs]
        own = [*workloads, self.pods, self.groups, self.addresses]
        if self.native_groups is not None:
            own.append(self.native_groups)
        return [self.jobs, *own, self.priorities, self.nodes]


def new_informers(
    dependencies: ControllerDependencies, *, settings: TrainingJobSettings
) -> TrainingJobInformers:
    """The informers, not yet running. A cluster may lack PodGroups, and TrainingJobs at first."""
    options = InformerOptions(resync_s=settings.resync_period_s, sees_own_writes=True)
    informer = partial(dependencies.informer, options=options)
    optional = partial(dependencies.informer, options=replace(options, is_optional=True))
    gated = partial(
        dependencies.informer,
        options=replace(options, is_optional=True, recheck_s=GATED_RECHECK_S),
    )
    ours = Selection(settings.namespace, labels=JOB_UID)
    return TrainingJobInformers(
        jobs=optional(TRAINING_JOBS, Selection(settings.namespace), AFTER.index),
        replica_sets=informer(REPLICA_SETS, ours, OWNED),
        batch_jobs=informer(JOBS, ours, OWNED),
        pods=informer(PODS, ours, OF_JOB, OF_JOB_UID, ON_NODE),
        groups=optional(POD_GROUPS, ours, OWNED),
        native_groups=gated(NATIVE_GROUPS, ours, OWNED) if settings.gang else None,
        addresses=informer(CONFIG_MAPS, ours, OWNED),
        priorities=informer(PRIORITY_CLASSES),
        nodes=informer(NODES),
    )


def take_snapshot(
    job: TrainingJob,
    informers: TrainingJobInformers,
    inputs: SnapshotInputs,
    *,
    settings: TrainingJobSettings,
) -> TrainingJobSnapshot:
    """The snapshot of one job, from the caches of this moment."""
    key, uid = job.metadata.key, job.metadata.uid

    def workload(role: Role) -> Key:
        return Key(key.namespace, workload_name(key.name, role))

    priority = Key("", job.spec.annotations.priority)
    pods = informers.pods.by_index(OF_JOB_UID.name, uid)
    # A node matters only to pods that are being deleted, whose end it may never report: all other
    # pods are the concern of their workloads.
    leaving = dict.fromkeys(pod.spec.node_name for pod in pods if is_leaving(pod.metadata))
    return TrainingJobSnapshot(
        job=job,
        master=owned_by(informers.replica_sets, workload(Role.MASTER), uid),
        pserver=owned_by(informers.replica_sets, workload(Role.PSERVER), uid),
        trainer=owned_by(informers.batch_jobs, workload(Role.TRAINER), uid),
        group=owned_by(informers.groups, key, uid),
        native_group=owned_by(informers.native_groups, key, uid),
        addresses=owned_by(informers.addresses, Key(key.namespace, addresses_name(key.name)), uid),
        members=owned_by(informers.addresses, Key(key.namespace, members_name(key.name)), uid),
        pods=pods,
        nodes=inputs.node_states(name for name in leaving if name),
        problems=problems_of(job) if job.status.phase is Phase.EMPTY else (),
        priority_class_found=informers.priorities.get(priority) is not None,
        gang_served=informers.groups.is_served,
        native_served=informers.native_groups is not None and informers.native_groups.is_served,
        refused=inputs.refused,
        report=inputs.report,
        stored_status=inputs.stored_status,
        after=AFTER.states(job, informers.jobs),
        is_awaited=AFTER.is_awaited(job, informers.jobs),
        is_recorded=inputs.is_recorded,
        settings=settings,
    )


def report_target(job: TrainingJob, informers: TrainingJobInformers) -> ReportTarget | None:
    """The trainers of a job that may be asked for its report, the lowest indexes first."""
    meta = job.metadata
    token = meta.annotations.get(REPORT_TOKEN)
    if not token or job.status.phase in FINAL_PHASES or is_leaving(meta):
        return None
    name = Key(meta.namespace, workload_name(meta.name, Role.TRAINER))
    trainer = owned_by(informers.batch_jobs, name, meta.uid)
    if trainer is None:
        return None
    running = [
        (index, pod)
        for pod in informers.pods.by_index(OF_JOB_UID.name, meta.uid)
        if is_running(pod)
        and ROLE_LABELS[Role.TRAINER] in pod.metadata.labels
        and (index := completion_index(pod)) is not None
    ]
    sources = tuple(
        ReportSource(
            ROLE,
            index,
            pod.status.pod_ip,
            pod.metadata.annotations.get(REPORT_ANNOTATION, ""),
            pod.metadata.uid,
            pod.metadata.name,
        )
        for index, pod in sorted(running, key=lambda one: (one[0], one[1].metadata.name))
    )
    containers = objects((trainer.spec.template.get("spec") or {}).get("containers"))
    return ReportTarget(meta.uid, token, asked_port(containers), sources, meta.namespace)


def problems_of(job: TrainingJob) -> tuple[str, ...]:
    """The problems that validation finds in a job's spec."""
    # `to_body` leaves out fields that have their default, but validation needs to know the kind.
    body = {"apiVersion": job.api_version, "kind": job.kind, **to_body(job)}
    return tuple(map(str, validate(body)))


def _placeholder(meta: ObjectMeta, body: Body) -> TrainingJob:
    """A job that has only its metadata, and its status if that can be decoded."""
    try:
        status = convert(body.get("status", {}), TrainingJobStatus)
    except msgspec.ValidationError:
        status = TrainingJobStatus()
    return TrainingJob(metadata=meta, status=status)


def _problem(found: Malformed) -> str:
    return "; ".join(map(str, validate(found.body))) or found.error


MALFORMED: MalformedRules[TrainingJob, TrainingJobSnapshot] = MalformedRules(
    placeholder=_placeholder,
    problem=_problem,
    has_ended=lambda snapshot: (
        snapshot.job.status.released or snapshot.job.status.phase in FINAL_PHASES
    ),
    delete=delete_training_job,
    after_end=after_the_end,
    fail=lambda snapshot, message, _: fail_malformed(snapshot, message),
)


def _children_of(job: Key) -> Selection:
    return Selection(job.namespace, labels=f"{JOB_UID},{JOB_NAME}={job.name}")


def _jobs_of(pod: Pod) -> Iterable[Key]:
    return _job_key(pod.metadata, pod) if is_leaving(pod.metadata) else ()
