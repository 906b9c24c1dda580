"""The AITrainingJob kind as the framework runs it: informers, snapshots, and the rules of the kind.

Decides nothing: `decide` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    AITrainingJobStatus,
    StragglerPolicy,
)
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.codec import to_body
from swell.api.core import ConfigMap, Node, Service
from swell.api.devices import ResourceClaim, ResourceSlice
from swell.api.injection import REPORT_ANNOTATION
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    JOBS,
    NATIVE_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
)
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.native_groups import NativeGroup
from swell.api.node_faults import read_faults
from swell.api.pod import Pod, PodPhase
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup
from swell.api.validation import validate
from swell.history.places import ai_training_job_place
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.cleanup import after_malformed, fail_malformed, plan_deletion
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.exclusions import held_off
from swell.operator.aitrainingjob.metrics import JobMetrics
from swell.operator.aitrainingjob.node_faults import blamed_nodes, roles_with_alternatives
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    containers_of,
    replica_of,
)
from swell.operator.framework.after import AfterOthers
from swell.operator.framework.devicewatch import BY_DEVICE
from swell.operator.framework.gpu_health import GpuInformers
from swell.operator.framework.kind import (
    ON_NODE,
    ChildInformer,
    ControllerDependencies,
    FaultRules,
    JobKindDefinition,
    KindNames,
    SnapshotInputs,
    owned_by,
)
from swell.operator.framework.malformed import MalformedRules
from swell.operator.framework.orphans import OrphanRules
from swell.operator.framework.reports import ReportSource, ReportTarget
from swell.operator.framework.training import REPORT_TOKEN, asked_port
from swell.runtime.cache import CacheIndex
from swell.runtime.cluster import Selection
from swell.runtime.informer import Informer, RunnableInformer, by_controller_key
from swell.runtime.reflector import GATED_RECHECK_S, InformerOptions

OURS = f"{labels.GROUP_NAME}={labels.GROUP_VALUE}"
# Pods change in bursts, when a gang is bound or started.
SETTLE_S = 0.1
OWNED = by_controller_key(AI_TRAINING_JOBS.kind)

NAMES = KindNames("aitrainingjob", "operator", "caches", lease_suffix="")

ORPHANS = OrphanRules(
    jobs=AI_TRAINING_JOBS,
    kinds=(PODS, SERVICES, CONFIG_MAPS, REPLICA_SETS, JOBS, POD_GROUPS, NATIVE_GROUPS),
    label=OURS,
    pod_owners=(AI_TRAINING_JOBS,),
)


def _blamed(_: ObjectMeta, job: AITrainingJob | None) -> Iterable[str]:
    return blamed_nodes(job) if job is not None else ()


# Jobs by the nodes that they blame for failures.
BLAMED: CacheIndex[AITrainingJob] = CacheIndex("blamed", _blamed)

# Jobs by those that they come after.
AFTER: AfterOthers[AITrainingJob] = AfterOthers(FINAL_PHASES, labels.AFTER)


def ai_training_job_kind(
    settings: AITrainingJobSettings,
) -> JobKindDefinition[AITrainingJob, AITrainingJobSnapshot, AITrainingJobInformers]:
    """The kind with these settings."""
    return JobKindDefinition(
        names=NAMES,
        resource=AI_TRAINING_JOBS,
        settings=settings,
        informers=partial(new_informers, settings=settings),
        snapshot=partial(take_snapshot, settings=settings),
        decide=decide,
        malformed=MALFORMED,
        orphans=ORPHANS,
        children_of=_children_of,
        jobs_of=_jobs_of,
        settle_s=SETTLE_S,
        manager_of=lambda job: job.spec.managed_by,
        follow_others=AFTER.follow,
        report_target=report_target,
        job_of=lambda pod: next(iter(_jobs_of(pod)), None),
        fault_rules=FaultRules(BLAMED.name, blamed_nodes, lambda job: job.status.node_faults),
        gpu_informers=lambda informers: informers.gpus,
        meter=JobMetrics,
        place_of=ai_training_job_place,
    )


@dataclass(frozen=True, slots=True)
class AITrainingJobInformers:
    """The informers of the kind. `groups` is None where gangs are switched off."""

    jobs: Informer[AITrainingJob]
    pods: Informer[Pod]
    services: Informer[Service]
    members: Informer[ConfigMap]
    nodes: Informer[Node]
    priorities: Informer[PriorityClass]
    groups: Informer[PodGroup] | None
    native_groups: Informer[NativeGroup] | None
    slices: Informer[ResourceSlice] | None
    claims: Informer[ResourceClaim] | None

    @property
    def children(self) -> list[tuple[ChildInformer, str]]:
        """Each informer of children, with its index by job key."""
        informers: list[ChildInformer] = [self.pods, self.services, self.members]
        if self.groups is not None:
            informers.append(self.groups)
        if self.native_groups is not None:
            informers.append(self.native_groups)
        return [(informer, OWNED.name) for informer in informers]

    @property
    def every(self) -> list[RunnableInformer]:
        """All informers in the order they are started."""
        groups = (self.groups, self.native_groups)
        own: list[RunnableInformer] = [self.jobs, self.pods, self.services, self.members]
        return [
            *own,
            *(one for one in groups if one is not None),
            self.nodes,
            self.priorities,
            *(one for one in (self.slices, self.claims) if one is not None),
        ]

    @property
    def gpus(self) -> GpuInformers:
        return GpuInformers(self.nodes, self.pods, self.slices, self.claims)


def new_informers(
    dependencies: ControllerDependencies, *, settings: AITrainingJobSettings
) -> AITrainingJobInformers:
    """The informers, not yet running."""
    options = InformerOptions(resync_s=settings.resync_period_s, sees_own_writes=True)
    informer = partial(dependencies.informer, options=options)
    # A cluster may lack PodGroups. Jobs then do without, until the kind is served.
    optional = partial(dependencies.informer, options=replace(options, is_optional=True))
    gated = partial(
        dependencies.informer,
        options=replace(options, is_optional=True, recheck_s=GATED_RECHECK_S),
    )
    # Slices tell of devices that are broken, claims who has them. An older role gives no right to
    # read them.
    devices = partial(
        dependencies.informer,
        options=replace(
            options, is_optional=True, may_be_forbidden=True, recheck_s=GATED_RECHECK_S
        ),
    )
    follows_devices = bool(settings.gpu_fault_device_taints) and settings.sees_cluster
    namespace = settings.namespace
    ours = Selection(namespace, labels=OURS)
    return AITrainingJobInformers(
        jobs=informer(AI_TRAINING_JOBS, Selection(namespace), AFTER.index, BLAMED),
        pods=informer(PODS, ours, OWNED, ON_NODE),
        services=informer(SERVICES, ours, OWNED),
        members=informer(CONFIG_MAPS, ours, OWNED),
        nodes=informer(NODES),
        priorities=informer(PRIORITY_CLASSES),
        groups=optional(POD_GROUPS, ours, OWNED) if settings.gang else None,
        native_groups=gated(NATIVE_GROUPS, ours, OWNED) if settings.gang else None,
        slices=devices(RESOURCE_SLICES) if follows_devices else None,
        claims=(
            devices(RESOURCE_CLAIMS, Selection(namespace), BY_DEVICE) if follows_devices else None
        ),
    )


def take_snapshot(
    job: AITrainingJob,
    informers: AITrainingJobInformers,
    inputs: SnapshotInputs,
    *,
    settings: AITrainingJobSettings,
) -> AITrainingJobSnapshot:
    """The snapshot of one job, from the caches of this moment."""
    key, uid = job.metadata.key, job.metadata.uid
    # The spec is validated once, in the pass that starts the job; `decide` adds the finalizer in
    # the pass before.
    is_new = job.status.phase is Phase.EMPTY and labels.FINALIZER in job.metadata.finalizers
    # One that is suspended from the beginning may be edited until it starts.
    is_new = is_new or (job.status.suspension is not None and job.status.start_time is None)
    pods = informers.pods.by_owner(uid)
    nodes = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
    return AITrainingJobSnapshot(
        job=job,
        pods=pods,
        unread=_unread(pods, informers.pods),
        services=informers.services.by_owner(uid),
        group=owned_by(informers.groups, key, uid),
        members=owned_by(informers.members, Key(key.namespace, labels.members_name(key.name)), uid),
        nodes=inputs.node_states(nodes),
        devices=inputs.devices_of(pods),
        trusted=_trusted(job, informers.nodes),
        has_alternative=roles_with_alternatives(
            job, informers.nodes.all, _to_move_from(job, pods, inputs)
        ),
        held_off=held_off(job, pods, informers.nodes.all),
        mass_failure=inputs.mass_failure,
        problems=tuple(map(str, validate(to_body(job)))) if is_new else (),
        priority_class_found=informers.priorities.get(Key("", job.spec.priority)) is not None,
        gang_served=informers.groups is not None and informers.groups.is_served,
        native_groups=informers.native_groups.by_owner(uid) if informers.native_groups else (),
        native_served=informers.native_groups is not None and informers.native_groups.is_served,
        report=inputs.report,
        after=AFTER.states(job, informers.jobs),
        is_awaited=AFTER.is_awaited(job, informers.jobs),
        refused=inputs.refused,
        no_pods_before=inputs.no_pods_before,
        stored_status=inputs.stored_status,
        is_recorded=inputs.is_recorded,
        settings=settings,
    )


def _to_move_from(job: AITrainingJob, pods: Iterable[Pod], inputs: SnapshotInputs) -> list[str]:
    """The nodes of the pods that a report may name as the slowest, if such pods are moved."""
    received = inputs.report
    slowest = received.report.slowest if received is not None else None
    if job.spec.straggler_policy is not StragglerPolicy.REPLACE or slowest is None:
        return []
    ours = (replica_of(pod, job.metadata.name) for pod in pods)
    return [one.pod.spec.node_name for one in ours if one.index == slowest.index and one.is_bound]


def _trusted(job: AITrainingJob, nodes: Informer[Node]) -> dict[str, str]:
    """Since when the nodes that the job blames for failures are trusted: at least since they exist.

    A new machine may have the name of one that was broken.
    """
    found = ((name, nodes.get(Key("", name))) for name in blamed_nodes(job))
    metas = ((name, node.metadata) for name, node in found if node is not None)
    return {
        name: max(read_faults(meta.annotations).trusted or "", meta.creation_timestamp or "")
        for name, meta in metas
    }


def _unread(pods: Iterable[Pod], informer: Informer[Pod]) -> frozenset[str]:
    """The names of the pods whose status this process has never been able to read."""
    if not informer.n_malformed:
        return frozenset()
    every = (pod.metadata for pod in pods)
    own = ("metadata", "spec")
    return frozenset(one.name for one in every if informer.unreadable(one.key, but=own))


def report_target(job: AITrainingJob, informers: AITrainingJobInformers) -> ReportTarget | None:
    """The pods of a job that may be asked for its report, the lowest indexes first."""
    meta = job.metadata
    token = meta.annotations.get(REPORT_TOKEN)
    if not token or job.status.phase in FINAL_PHASES or meta.deletion_timestamp is not None:
        return None
    running = [
        replica_of(pod, meta.name)
        for pod in informers.pods.by_owner(meta.uid)
        if pod.status.phase is PodPhase.RUNNING and pod.metadata.deletion_timestamp is None
    ]
    sources = tuple(
        ReportSource(
            one.role,
            one.index,
            one.pod.status.pod_ip,
            one.pod.metadata.annotations.get(REPORT_ANNOTATION, ""),
            one.pod.metadata.uid,
            one.pod.metadata.name,
        )
        for one in sorted(running, key=lambda one: (one.index, one.role))
    )
    every = (c for spec in job.spec.replica_specs.values() for c in containers_of(spec.template))
    return ReportTarget(meta.uid, token, asked_port(every), sources, meta.namespace)


def _placeholder(meta: ObjectMeta, body: Body) -> AITrainingJob:
    """A job that has only its metadata, and its phase if that is final."""
    found = body.get("status")
    phase = found.get("phase") if isinstance(found, dict) else None
    ended = next((final for final in FINAL_PHASES if final.value == phase), Phase.EMPTY)
    return AITrainingJob(metadata=meta, status=AITrainingJobStatus(phase=ended))


MALFORMED: MalformedRules[AITrainingJob, AITrainingJobSnapshot] = MalformedRules(
    placeholder=_placeholder,
    problem=lambda found: found.error,
    has_ended=lambda snapshot: snapshot.job.status.phase in FINAL_PHASES,
    delete=plan_deletion,
    after_end=after_malformed,
    fail=fail_malformed,
)


def _children_of(job: Key) -> Selection:
    # Never wider than the informers' own selection: no watch event would ever remove an object
    # that was read into a cache from outside of it.
    return Selection(job.namespace, labels=f"{OURS},{labels.TRAINING_JOB_NAME}={job.name}")


def _jobs_of(pod: Pod) -> Iterable[Key]:
    owner = pod.metadata.controller
    return (Key(pod.metadata.namespace, owner.name),) if owner is not None else ()
