"""The AITrainingJob controller put together: what it follows, what a decision gets to see.

Decides nothing itself: see `lifecycle.decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from swell.api.aitrainingjob import AITrainingJob, Phase
from swell.api.codec import to_body
from swell.api.configmap import ConfigMap
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
)
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.node import Node
from swell.api.pod import Pod
from swell.api.podgroup import PodGroup
from swell.api.priorityclass import PriorityClass
from swell.api.resource import ApiObject, Resource
from swell.api.service import Service
from swell.api.validation import validate
from swell.operator import labels
from swell.operator.lifecycle.decide import decide
from swell.operator.lifecycle.malformed import decide_malformed, husk
from swell.operator.lifecycle.world import NodeState, Refused, World
from swell.operator.nodewatch import NodeWatch
from swell.operator.settings import Settings
from swell.runtime.cache import Index
from swell.runtime.clock import Clock
from swell.runtime.cluster import EVERYTHING, Cluster, Malformed, Selection
from swell.runtime.controller import Controller, ControllerMeter, Refusal, Work
from swell.runtime.doubt import Children, Informed
from swell.runtime.executor import EventSink, Executor, Observer, WriteMeter
from swell.runtime.following import InformerOptions
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.plan import Plan
from swell.runtime.queue import WorkQueue

T = TypeVar("T", bound=ApiObject)

OURS = f"{labels.GROUP_NAME}={labels.GROUP_VALUE}"
# Pods change in swarms: their job is looked at this long after the first change.
SETTLE_S = 0.1
OWNED = by_controller_key(AI_TRAINING_JOBS.kind)


def _node_of(_: ObjectMeta, pod: Pod | None) -> Sequence[str]:
    return (pod.spec.node_name,) if pod is not None and pod.spec.node_name else ()


ON_NODE: Index[Pod] = Index("node", _node_of)


class Child(Informed, Observer, Protocol):
    """An informer of what jobs own: read by the controller, told by the executor."""


class Runnable(Protocol):
    """What is needed of an informer to run it and to ask how it is."""

    @property
    def resource(self) -> Resource[object]: ...

    @property
    def synced(self) -> bool: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...

    def problem(self, patience_s: float = ...) -> str: ...


@dataclass(frozen=True, slots=True)
class Informers:
    """What the controller follows. `groups` is missing where the cluster has no such kind."""

    jobs: Informer[AITrainingJob]
    pods: Informer[Pod]
    services: Informer[Service]
    members: Informer[ConfigMap]
    nodes: Informer[Node]
    priorities: Informer[PriorityClass]
    groups: Informer[PodGroup] | None

    @classmethod
    def over(
        cls,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        *,
        settings: Settings,
        gang_served: bool,
    ) -> Informers:
        options = InformerOptions(resync_s=settings.resync_period_s)

        def informer(
            resource: Resource[T], selection: Selection = EVERYTHING, *indexes: Index[T]
        ) -> Informer[T]:
            return Informer(
                cluster,
                resource,
                clock=clock,
                random=random,
                selection=selection,
                indexes=indexes,
                options=options,
            )

        namespace = settings.namespace
        ours = Selection(namespace, labels=OURS)
        return cls(
            jobs=informer(AI_TRAINING_JOBS, Selection(namespace)),
            pods=informer(PODS, ours, OWNED, ON_NODE),
            services=informer(SERVICES, ours, OWNED),
            members=informer(CONFIG_MAPS, ours, OWNED),
            nodes=informer(NODES),
            priorities=informer(PRIORITY_CLASSES),
            groups=informer(POD_GROUPS, ours, OWNED) if gang_served else None,
        )

    @property
    def optional(self) -> list[Informer[PodGroup]]:
        return [self.groups] if self.groups is not None else []

    @property
    def required(self) -> list[Runnable]:
        """Those without which nothing can be decided."""
        return [self.jobs, self.pods, self.services, self.members, *self.optional]

    @property
    def every(self) -> list[Runnable]:
        return [*self.required, self.nodes, self.priorities]


class Snapshots:
    """Takes what a decision sees from the informers, without awaiting anything."""

    def __init__(
        self,
        informers: Informers,
        settings: Settings,
        refusal: Callable[[Key], Refusal | None],
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
        return decide_malformed(found, self._world(husk(found), found.key), now)

    def _world(self, job: AITrainingJob, key: Key) -> World:
        uid, seen = job.metadata.uid, self._informers
        # Judged once, when the finalizer is there; see `decide`.
        fresh = job.status.phase is Phase.EMPTY and labels.FINALIZER in job.metadata.finalizers
        pods = seen.pods.by_owner(uid)
        names = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
        return World(
            job=job,
            pods=pods,
            services=seen.services.by_owner(uid),
            group=_own(seen.groups, key, uid),
            members=_own(seen.members, Key(key.namespace, labels.members_name(key.name)), uid),
            nodes=self._node_states(names),
            problems=tuple(map(str, validate(to_body(job)))) if fresh else (),
            priority_class_found=seen.priorities.get(Key("", job.spec.priority)) is not None,
            gang_served=seen.groups is not None,
            refused=_refused(self._refusal(key)),
            settings=self._settings,
        )


class JobController:
    """The controller over informers that somebody else runs; `services` are to be run with it."""

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
        self.nodes = NodeWatch(
            informers.nodes, WorkQueue(clock=clock, random=random), clock, self._wake_node
        )
        self._pods = informers.pods
        children: list[Child] = [informers.pods, informers.services, informers.members]
        children += informers.optional
        snapshots = Snapshots(informers, settings, self._refusal, self.nodes.states)
        self.loop = Controller(
            "aitrainingjob",
            Work(snapshots.take, decide, snapshots.malformed),
            owners=informers.jobs,
            children=[Children(child, OWNED.name, _children_of, SETTLE_S) for child in children],
            executor=Executor(
                cluster, informers=[informers.jobs, *children], events=events, meter=write_meter
            ),
            queue=WorkQueue(clock=clock, random=random),
            clock=clock,
            workers=settings.workers,
            meter=meter,
        )
        informers.nodes.add_handler(lambda key: self._wake_node(key.name))

    def _refusal(self, key: Key) -> Refusal | None:
        return self.loop.refusal(key)

    def _wake_node(self, name: str) -> None:
        """Wake the jobs that have a pod on a node of which there is news."""
        for pod in self._pods.by_index(ON_NODE.name, name):
            owner = pod.metadata.controller
            if owner is not None:
                self.loop.wake(Key(pod.metadata.namespace, owner.name))


def _children_of(job: Key) -> Selection:
    return Selection(job.namespace, labels=f"{labels.TRAINING_JOB_NAME}={job.name}")


def _own(informer: Informer[T] | None, key: Key, uid: Uid) -> T | None:
    """The object under a key, if it is this owner's and not a namesake's."""
    found = informer.get(key) if informer is not None else None
    owner = found.metadata.controller if found is not None else None
    return found if owner is not None and owner.uid == uid else None


def _refused(refusal: Refusal | None) -> Refused | None:
    if refusal is None:
        return None
    what = f"{refusal.action.resource.kind} {refusal.action.key.name}"
    return Refused(what, refusal.reason, refusal.message, refusal.retry_at)
