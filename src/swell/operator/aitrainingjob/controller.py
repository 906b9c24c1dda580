"""The AITrainingJob controller put together: what it follows, what a decision gets to see.

Decides nothing itself: see `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.codec import to_body
from swell.api.core import ConfigMap, Node, Service
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
)
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup
from swell.api.validation import validate
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.malformed import decide_malformed, husk
from swell.operator.aitrainingjob.settings import Settings
from swell.operator.aitrainingjob.world import Refused, World
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.shell import ON_NODE, Child, Means, Runnable, own, watch_nodes
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.controller import Controller, Reconciler, RejectedWrite
from swell.runtime.executor import EventSink, Executor
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.plan import Plan
from swell.runtime.reflector import InformerOptions
from swell.runtime.uncertain import Children

OURS = f"{labels.GROUP_NAME}={labels.GROUP_VALUE}"
# Pods change in swarms: their job is looked at this long after the first change.
SETTLE_S = 0.1
OWNED = by_controller_key(AI_TRAINING_JOBS.kind)


@dataclass(frozen=True, slots=True)
class Informers:
    """What the controller follows. `groups` is missing where gangs are not wanted."""

    jobs: Informer[AITrainingJob]
    pods: Informer[Pod]
    services: Informer[Service]
    members: Informer[ConfigMap]
    nodes: Informer[Node]
    priorities: Informer[PriorityClass]
    groups: Informer[PodGroup] | None

    @classmethod
    def over(cls, means: Means, settings: Settings) -> Informers:
        options = InformerOptions(resync_s=settings.resync_period_s, sees_own_writes=True)
        informer = partial(means.informer, options=options)
        # Where there are no PodGroups, jobs do without; when there are, the next ones have them.
        optional = partial(means.informer, options=replace(options, is_optional=True))
        namespace = settings.namespace
        ours = Selection(namespace, labels=OURS)
        return cls(
            jobs=informer(AI_TRAINING_JOBS, Selection(namespace)),
            pods=informer(PODS, ours, OWNED, ON_NODE),
            services=informer(SERVICES, ours, OWNED),
            members=informer(CONFIG_MAPS, ours, OWNED),
            nodes=informer(NODES),
            priorities=informer(PRIORITY_CLASSES),
            groups=optional(POD_GROUPS, ours, OWNED) if settings.gang else None,
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
        return decide_malformed(found, self._world(husk(found), found.key), now)

    def _world(self, job: AITrainingJob, key: Key) -> World:
        uid, seen = job.metadata.uid, self._informers
        # Judged once, when the finalizer is there; see `decide`.
        fresh = (
            job.status.phase is AITrainingJobPhase.EMPTY
            and labels.FINALIZER in job.metadata.finalizers
        )
        pods = seen.pods.by_owner(uid)
        names = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
        return World(
            job=job,
            pods=pods,
            services=seen.services.by_owner(uid),
            group=own(seen.groups, key, uid),
            members=own(seen.members, Key(key.namespace, labels.members_name(key.name)), uid),
            nodes=self._node_states(names),
            problems=tuple(map(str, validate(to_body(job)))) if fresh else (),
            priority_class_found=seen.priorities.get(Key("", job.spec.priority)) is not None,
            gang_served=seen.groups is not None and seen.groups.is_served,
            refused=_refused(self._refusal(key)),
            settings=self._settings,
        )


class JobController:
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
        children: list[Child] = [informers.pods, informers.services, informers.members]
        children += informers.optional
        snapshots = Snapshots(informers, settings, self._refusal, self.nodes.states)
        self.loop = Controller(
            "aitrainingjob",
            Reconciler(snapshots.take, decide, snapshots.malformed),
            owners=informers.jobs,
            children=[Children(child, OWNED.name, _children_of, SETTLE_S) for child in children],
            executor=Executor(
                means.cluster,
                informers=[informers.jobs, *children],
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
        owner = pod.metadata.controller
        if owner is not None:
            self.loop.wake(Key(pod.metadata.namespace, owner.name))


def _children_of(job: Key) -> Selection:
    # Nothing but what the informers follow: of anything else no watch tells that it has gone.
    return Selection(job.namespace, labels=f"{OURS},{labels.TRAINING_JOB_NAME}={job.name}")


def _refused(refusal: RejectedWrite | None) -> Refused | None:
    if refusal is None:
        return None
    what = f"{refusal.action.resource.kind} {refusal.action.key.name}"
    return Refused(what, refusal.reason, refusal.message, refusal.retry_at)
