"""The TrainingJob controller put together: what it follows, what a decision gets to see.

Decides nothing itself: see `updater.reconcile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from swell.api.codec import to_body
from swell.api.job import Job
from swell.api.kinds import JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.podgroup import PodGroup
from swell.api.priorityclass import PriorityClass
from swell.api.replicaset import ReplicaSet
from swell.api.resource import ApiObject, Resource
from swell.api.trainingjob import Phase, TrainingJob
from swell.api.validation import validate
from swell.operator.jobs import Child, Runnable
from swell.operator.trainingjob.labels import JOB_NAME, JOB_UID, Role, workload_name
from swell.operator.trainingjob.settings import Settings
from swell.operator.trainingjob.updater.malformed import husk, reconcile_malformed
from swell.operator.trainingjob.updater.reconcile import reconcile
from swell.operator.trainingjob.updater.world import Refused, World
from swell.runtime.cache import Index
from swell.runtime.clock import Clock
from swell.runtime.cluster import EVERYTHING, Cluster, Malformed, Selection
from swell.runtime.controller import Controller, ControllerMeter, Refusal, Work
from swell.runtime.doubt import Children
from swell.runtime.executor import EventSink, Executor, WriteMeter
from swell.runtime.following import InformerOptions
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.plan import Plan
from swell.runtime.queue import WorkQueue

T = TypeVar("T", bound=ApiObject)

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
OF_JOB: Index[object] = Index("job", _job_key)
OF_JOB_UID: Index[object] = Index("job UID", _job_uid)


@dataclass(frozen=True, slots=True)
class Informers:
    """What the controller follows. A cluster may lack PodGroups, and TrainingJobs for a while."""

    jobs: Informer[TrainingJob]
    replica_sets: Informer[ReplicaSet]
    batch_jobs: Informer[Job]
    pods: Informer[Pod]
    groups: Informer[PodGroup]
    priorities: Informer[PriorityClass]

    @classmethod
    def over(cls, cluster: Cluster, clock: Clock, random: Random, settings: Settings) -> Informers:
        def informer(
            resource: Resource[T],
            selection: Selection = EVERYTHING,
            *indexes: Index[object],
            is_optional: bool = False,
        ) -> Informer[T]:
            options = InformerOptions(resync_s=settings.resync_period_s, is_optional=is_optional)
            return Informer(
                cluster,
                resource,
                clock=clock,
                random=random,
                selection=selection,
                indexes=indexes,
                options=options,
            )

        ours = Selection(settings.namespace, labels=JOB_UID)
        return cls(
            jobs=informer(TRAINING_JOBS, Selection(settings.namespace), is_optional=True),
            replica_sets=informer(REPLICA_SETS, ours, OWNED),
            batch_jobs=informer(JOBS, ours, OWNED),
            pods=informer(PODS, ours, OF_JOB, OF_JOB_UID),
            groups=informer(POD_GROUPS, ours, OWNED, is_optional=True),
            priorities=informer(PRIORITY_CLASSES),
        )

    @property
    def required(self) -> list[Runnable]:
        """Those without which nothing can be decided."""
        return [self.jobs, self.replica_sets, self.batch_jobs, self.pods, self.groups]

    @property
    def every(self) -> list[Runnable]:
        return [*self.required, self.priorities]


class Snapshots:
    """Takes what a decision sees from the informers, without awaiting anything."""

    def __init__(
        self,
        informers: Informers,
        settings: Settings,
        refusal: Callable[[Key], Refusal | None],
    ) -> None:
        self._informers = informers
        self._settings = settings
        self._refusal = refusal

    def take(self, key: Key) -> World | None:
        job = self._informers.jobs.get(key)
        return None if job is None else self._world(job, key)

    def malformed(self, found: Malformed, _: float) -> Plan:
        """A job nobody can read may still own things, and must not keep anybody waiting."""
        return reconcile_malformed(found, self._world(husk(found), found.key))

    def _world(self, job: TrainingJob, key: Key) -> World:
        uid, seen = job.metadata.uid, self._informers
        priority = Key("", job.spec.annotations.priority)
        is_fresh = job.status.phase is Phase.EMPTY
        return World(
            job=job,
            master=_own(seen.replica_sets, _workload(key, Role.MASTER), uid),
            pserver=_own(seen.replica_sets, _workload(key, Role.PSERVER), uid),
            trainer=_own(seen.batch_jobs, _workload(key, Role.TRAINER), uid),
            group=_own(seen.groups, key, uid),
            pods=seen.pods.by_index(OF_JOB_UID.name, uid),
            problems=problems_of(job) if is_fresh else (),
            priority_class_found=seen.priorities.get(priority) is not None,
            gang_served=seen.groups.is_served,
            refused=_refused(self._refusal(key)),
            settings=self._settings,
        )


class TrainingJobController:
    """The controller over informers that somebody else runs; `loop` is to be run with them."""

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        *,
        settings: Settings,
        clock: Clock,
        random: Random,
        events: EventSink | None = None,
        meter: ControllerMeter | None = None,
        write_meter: WriteMeter | None = None,
    ) -> None:
        owned: list[Child] = [informers.replica_sets, informers.batch_jobs, informers.groups]
        snapshots = Snapshots(informers, settings, self._refusal)
        self.loop = Controller(
            "trainingjob",
            Work(snapshots.take, reconcile, snapshots.malformed),
            owners=informers.jobs,
            children=[
                *(Children(child, OWNED.name, _children_of, SETTLE_S) for child in owned),
                Children(informers.pods, OF_JOB.name, _children_of, SETTLE_S),
            ],
            executor=Executor(
                cluster,
                informers=[informers.jobs, informers.pods, *owned],
                events=events,
                meter=write_meter,
            ),
            queue=WorkQueue(clock=clock, random=random),
            clock=clock,
            workers=settings.workers,
            meter=meter,
        )

    def _refusal(self, key: Key) -> Refusal | None:
        return self.loop.refusal(key)


def problems_of(job: TrainingJob) -> tuple[str, ...]:
    """What validation has against a job, as far as we read it."""
    # A body leaves out what has its default, but a manifest must say what it is.
    body = {"apiVersion": job.api_version, "kind": job.kind, **to_body(job)}
    return tuple(map(str, validate(body)))


def _children_of(job: Key) -> Selection:
    return Selection(job.namespace, labels=f"{JOB_UID},{JOB_NAME}={job.name}")


def _workload(job: Key, role: Role) -> Key:
    return Key(job.namespace, workload_name(job.name, role))


def _own(informer: Informer[T], key: Key, uid: Uid) -> T | None:
    """The object under a key, if it is this owner's and not a namesake's."""
    found = informer.get(key)
    owner = found.metadata.controller if found is not None else None
    return found if owner is not None and owner.uid == uid else None


def _refused(refusal: Refusal | None) -> Refused | None:
    if refusal is None:
        return None
    what = f"{refusal.action.resource.kind} {refusal.action.key.name}"
    return Refused(what, refusal.message)
