"""The TrainingJob controller put together: what it follows, what a decision gets to see.

Decides nothing itself: see `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from swell.api.codec import to_body
from swell.api.core import Node
from swell.api.kinds import (
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    TRAINING_JOBS,
)
from swell.api.meta import Key, ObjectMeta
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import TrainingJob, TrainingJobPhase
from swell.api.validation import validate
from swell.api.workloads import Job, ReplicaSet
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.shell import ON_NODE, Child, Means, Runnable, own, watch_nodes
from swell.operator.trainingjob.decide import reconcile
from swell.operator.trainingjob.labels import JOB_NAME, JOB_UID, Role, workload_name
from swell.operator.trainingjob.malformed import husk, reconcile_malformed
from swell.operator.trainingjob.settings import Settings
from swell.operator.trainingjob.world import Refused, World, is_leaving
from swell.runtime.cache import CacheIndex
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.controller import Controller, Reconciler, RejectedWrite
from swell.runtime.executor import EventSink, Executor
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.plan import Plan
from swell.runtime.reflector import InformerOptions
from swell.runtime.uncertain import Children

# Pods and the counts of their workloads change in swarms: the job is looked at this long after
# the first change.
SETTLE_S = 0.2
OWNED = by_controller_key(TRAINING_JOBS.kind)


def _job_key(meta: ObjectMeta, _: object) -> Iterable[Key]:
    name = meta.labels.get(JOB_NAME)
    return (Key(meta.namespace, name),) if name else ()


def _job_uid(meta: ObjectMeta, _: object) -> Iterable[str]:
    uid = meta.labels.get(JOB_UID)
    return (uid,) if uid else ()


# A pod's owner is a workload; which job that belongs to, its labels tell.
OF_JOB: CacheIndex[object] = CacheIndex("job", _job_key)
OF_JOB_UID: CacheIndex[object] = CacheIndex("job UID", _job_uid)


@dataclass(frozen=True, slots=True)
class Informers:
    """What the controller follows. A cluster may lack PodGroups, and TrainingJobs for a while."""

    jobs: Informer[TrainingJob]
    replica_sets: Informer[ReplicaSet]
    batch_jobs: Informer[Job]
    pods: Informer[Pod]
    groups: Informer[PodGroup]
    priorities: Informer[PriorityClass]
    nodes: Informer[Node]

    @classmethod
    def over(cls, means: Means, settings: Settings) -> Informers:
        options = InformerOptions(resync_s=settings.resync_period_s, sees_own_writes=True)
        informer = partial(means.informer, options=options)
        optional = partial(means.informer, options=replace(options, is_optional=True))
        ours = Selection(settings.namespace, labels=JOB_UID)
        return cls(
            jobs=optional(TRAINING_JOBS, Selection(settings.namespace)),
            replica_sets=informer(REPLICA_SETS, ours, OWNED),
            batch_jobs=informer(JOBS, ours, OWNED),
            pods=informer(PODS, ours, OF_JOB, OF_JOB_UID, ON_NODE),
            groups=optional(POD_GROUPS, ours, OWNED),
            priorities=informer(PRIORITY_CLASSES),
            nodes=informer(NODES),
        )

    @property
    def required(self) -> list[Runnable]:
        """Those without which nothing can be decided."""
        return [self.jobs, self.replica_sets, self.batch_jobs, self.pods, self.groups]

    @property
    def every(self) -> list[Runnable]:
        return [*self.required, self.priorities, self.nodes]


class Snapshots:
    """Takes what a decision sees from the informers, without awaiting anything."""

    def __init__(
        self,
        informers: Informers,
        settings: Settings,
        refusal: Callable[[Key], RejectedWrite | None],
        node_states: Callable[[Iterable[str]], Mapping[str, NodeState]],
    ) -> None:
        self._informers = informers
        self._settings = settings
        self._refusal = refusal
        self._node_states = node_states

    def take(self, key: Key) -> World | None:
        job = self._informers.jobs.get(key)
        return None if job is None else self._world(job, key)

    def malformed(self, found: Malformed, now: float) -> Plan:
        """A job nobody can read may still own things, and must not keep anybody waiting."""
        return reconcile_malformed(found, self._world(husk(found), found.key), now)

    def _world(self, job: TrainingJob, key: Key) -> World:
        uid, seen = job.metadata.uid, self._informers
        priority = Key("", job.spec.annotations.priority)
        is_fresh = job.status.phase is TrainingJobPhase.EMPTY
        pods = seen.pods.by_index(OF_JOB_UID.name, uid)
        # Nodes matter to pods that are to go, and may never say that they went.
        leaving = dict.fromkeys(pod.spec.node_name for pod in pods if is_leaving(pod.metadata))
        return World(
            job=job,
            master=own(seen.replica_sets, _workload(key, Role.MASTER), uid),
            pserver=own(seen.replica_sets, _workload(key, Role.PSERVER), uid),
            trainer=own(seen.batch_jobs, _workload(key, Role.TRAINER), uid),
            group=own(seen.groups, key, uid),
            pods=pods,
            nodes=self._node_states(name for name in leaving if name),
            problems=problems_of(job) if is_fresh else (),
            priority_class_found=seen.priorities.get(priority) is not None,
            gang_served=seen.groups.is_served,
            refused=_refused(self._refusal(key)),
            settings=self._settings,
        )


class TrainingJobController:
    """The controller over informers that somebody else runs; `nodes` is to be run with it."""

    def __init__(
        self,
        means: Means,
        informers: Informers,
        *,
        settings: Settings,
        events: EventSink | None = None,
    ) -> None:
        self.nodes = watch_nodes(means, informers.nodes, informers.pods, self._wake)
        owned: list[Child] = [informers.replica_sets, informers.batch_jobs, informers.groups]
        snapshots = Snapshots(informers, settings, self._refusal, self.nodes.states)
        self.loop = Controller(
            "trainingjob",
            Reconciler(snapshots.take, reconcile, snapshots.malformed),
            owners=informers.jobs,
            children=[
                *(Children(child, OWNED.name, _children_of, SETTLE_S) for child in owned),
                Children(informers.pods, OF_JOB.name, _children_of, SETTLE_S),
            ],
            executor=Executor(
                means.cluster,
                informers=[informers.jobs, informers.pods, *owned],
                events=events,
                meter=means.writes,
            ),
            queue=means.queue(),
            clock=means.clock,
            workers=settings.workers,
            meter=means.passes,
        )

    def _refusal(self, key: Key) -> RejectedWrite | None:
        return self.loop.rejected_write(key)

    def _wake(self, pod: Pod) -> None:
        if is_leaving(pod.metadata):
            for key in _job_key(pod.metadata, pod):
                self.loop.wake(key)


def problems_of(job: TrainingJob) -> tuple[str, ...]:
    """What validation has against a job, as far as we read it."""
    # A body leaves out what has its default, but a manifest must say what it is.
    body = {"apiVersion": job.api_version, "kind": job.kind, **to_body(job)}
    return tuple(map(str, validate(body)))


def _children_of(job: Key) -> Selection:
    return Selection(job.namespace, labels=f"{JOB_UID},{JOB_NAME}={job.name}")


def _workload(job: Key, role: Role) -> Key:
    return Key(job.namespace, workload_name(job.name, role))


def _refused(refusal: RejectedWrite | None) -> Refused | None:
    if refusal is None:
        return None
    what = f"{refusal.action.resource.kind} {refusal.action.key.name}"
    return Refused(what, refusal.message)
