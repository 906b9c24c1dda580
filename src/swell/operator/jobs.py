"""The AITrainingJob controller put together: what it follows, what a decision gets to see.

Decides nothing itself: see `lifecycle.decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

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
from swell.api.resource import ApiObject
from swell.api.service import Service
from swell.api.validation import validate
from swell.operator import labels
from swell.operator.lifecycle.decide import decide
from swell.operator.lifecycle.malformed import decide_malformed, husk
from swell.operator.lifecycle.world import Refused, World
from swell.operator.settings import Settings
from swell.runtime.cache import Index
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed, Selection
from swell.runtime.controller import Controller, ControllerMeter, Refusal, Work
from swell.runtime.doubt import Children
from swell.runtime.executor import EventSink, Executor, Observer, WriteMeter
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.plan import Plan
from swell.runtime.queue import WorkQueue

T = TypeVar("T", bound=ApiObject)

OURS = Selection(labels=f"{labels.GROUP_NAME}={labels.GROUP_VALUE}")
OWNED = by_controller_key(AI_TRAINING_JOBS.kind)


def _node_of(_: ObjectMeta, pod: Pod | None) -> Sequence[str]:
    return (pod.spec.node_name,) if pod is not None and pod.spec.node_name else ()


ON_NODE: Index[Pod] = Index("node", _node_of)


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
        cls, cluster: Cluster, clock: Clock, random: Random, *, namespace: str, gang_served: bool
    ) -> Informers:
        ours = Selection(namespace, labels=OURS.labels)
        return cls(
            jobs=Informer(
                cluster,
                AI_TRAINING_JOBS,
                clock=clock,
                random=random,
                selection=Selection(namespace),
            ),
            pods=Informer(
                cluster,
                PODS,
                clock=clock,
                random=random,
                selection=ours,
                indexes=[OWNED, ON_NODE],
            ),
            services=Informer(
                cluster, SERVICES, clock=clock, random=random, selection=ours, indexes=[OWNED]
            ),
            members=Informer(
                cluster, CONFIG_MAPS, clock=clock, random=random, selection=ours, indexes=[OWNED]
            ),
            nodes=Informer(cluster, NODES, clock=clock, random=random),
            priorities=Informer(cluster, PRIORITY_CLASSES, clock=clock, random=random),
            groups=Informer(
                cluster, POD_GROUPS, clock=clock, random=random, selection=ours, indexes=[OWNED]
            )
            if gang_served
            else None,
        )


class Snapshots:
    """Takes what a decision sees from the informers, without awaiting anything."""

    def __init__(self, informers: Informers, settings: Settings) -> None:
        self._informers = informers
        self._settings = settings
        self.controller: Controller[World] | None = None

    def take(self, key: Key) -> World | None:
        job = self._informers.jobs.get(key)
        return None if job is None else self._world(job, key)

    def malformed(self, found: Malformed, now: float) -> Plan:
        """A job nobody can read may still own things, and must not keep anybody waiting."""
        return decide_malformed(found, self._world(husk(found), found.key), now)

    def _world(self, job: AITrainingJob, key: Key) -> World:
        uid, seen = job.metadata.uid, self._informers
        fresh = job.status.phase is Phase.EMPTY
        return World(
            job=job,
            pods=seen.pods.by_owner(uid),
            services=seen.services.by_owner(uid),
            group=_own(seen.groups, key, uid),
            members=_own(seen.members, Key(key.namespace, labels.members_name(key.name)), uid),
            nodes=NodesByName(seen.nodes) if seen.nodes.synced else None,
            problems=tuple(map(str, validate(to_body(job)))) if fresh else (),
            priority_class_found=seen.priorities.get(Key("", job.spec.priority)) is not None,
            gang_served=seen.groups is not None,
            refused=_refused(self.controller.refusal(key) if self.controller else None),
            settings=self._settings,
        )


class NodesByName(Mapping[str, Node]):
    """The nodes an informer holds, found by name; nothing is copied."""

    def __init__(self, nodes: Informer[Node]) -> None:
        self._nodes = nodes

    def __getitem__(self, name: str) -> Node:
        node = self._nodes.get(Key("", name))
        if node is None:
            raise KeyError(name)
        return node

    def __iter__(self) -> Iterator[str]:
        return (key.name for key in self._nodes.keys())  # noqa: SIM118

    def __len__(self) -> int:
        return len(self._nodes)


def job_controller(
    cluster: Cluster,
    informers: Informers,
    *,
    settings: Settings,
    clock: Clock,
    random: Random,
    events: EventSink | None = None,
    meter: ControllerMeter | None = None,
    write_meter: WriteMeter | None = None,
    workers: int = 4,
) -> Controller[World]:
    """The controller over informers that somebody else runs."""
    snapshots = Snapshots(informers, settings)
    children = [
        Children(informers.pods, OWNED.name, _children_of),
        Children(informers.services, OWNED.name, _children_of),
        Children(informers.members, OWNED.name, _children_of),
    ]
    observers: list[Observer] = [
        informers.jobs,
        informers.pods,
        informers.services,
        informers.members,
    ]
    if informers.groups is not None:
        children.append(Children(informers.groups, OWNED.name, _children_of))
        observers.append(informers.groups)
    controller = Controller(
        "aitrainingjob",
        Work(snapshots.take, decide, snapshots.malformed),
        owners=informers.jobs,
        children=children,
        executor=Executor(cluster, informers=observers, events=events, meter=write_meter),
        queue=WorkQueue(clock=clock, random=random),
        clock=clock,
        workers=workers,
        meter=meter,
    )
    snapshots.controller = controller
    informers.nodes.add_handler(_waker(informers.pods, controller))
    return controller


def _waker(pods: Informer[Pod], controller: Controller[World]) -> Callable[[Key], None]:
    """Wakes the jobs that have a pod on a node that changed."""

    def wake(node: Key) -> None:
        for pod in pods.by_index(ON_NODE.name, node.name):
            owner = pod.metadata.controller
            if owner is not None:
                controller.wake(Key(pod.metadata.namespace, owner.name))

    return wake


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
