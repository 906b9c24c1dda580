"""The cluster as the scheduler sees it, kept for trials: would it place these pods, and where?

The autoscaler asks the scheduler's own code, so that queues, ports, affinity and spread have one
source of truth. The mirror is a `SchedulerSnapshot` of this process: nothing in it reaches the
scheduler. Objects are only noted when they change, and put in when a trial asks for the snapshot:
a plan that needs no trial pays nothing. A trial changes the snapshot in place and undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.core import Namespace, Node
from swell.api.meta import Key, ObjectMeta
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.requests import PODS
from swell.api.scheduling import (
    PodGroup,
    PodGroupPhase,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
)
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.views import AutoscalerJob, JobKind, ReplicaClaim
from swell.scheduler.config import DEFAULT, Arguments, Config, PluginOption
from swell.scheduler.model.elastic import INDEX_LABEL, JOB_LABEL, ROLE_LABEL, trainers_key
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION, ROLE_KEY
from swell.scheduler.model.podset_annotations import request_of
from swell.scheduler.model.queue_rules import BUILT_IN, DEFAULT_QUEUE, SHUT
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import COMPLETION_INDEX
from swell.scheduler.model.ungrouped import is_ungrouped, virtual_group, virtual_group_name
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.session import Session

# The schedulers that serve Queues and PodGroups by these rules.
SCHEDULER: Final = "swell"
SCHEDULERS: Final = frozenset({SCHEDULER, "volcano"})
# Kubelets always state how many pods a node takes. A node written by hand without it has no limit.
_PODS_UNLIMITED: Final = "1000000"
_VOLUMES_OFF: Final = {"predicate.VolumeBindingEnable": False}
# Kinds in the order in which they are put in. Nodes come sorted by name, which breaks ties.
_ORDER: Final = (
    "namespace",
    "class",
    "node",
    "domain",
    "queue",
    "group",
    "native",
    "job",
    "trainers",
    "pod",
)


class _NotedPod(NamedTuple):
    pod: Pod
    claim: ReplicaClaim | None

    def as_scheduled(self) -> Pod:
        claim = self.claim
        if claim is None:
            return self.pod
        return as_member(with_index(self.pod, claim), claim.job.name, claim.role)


Mirrored = (
    Namespace
    | PriorityClass
    | Node
    | HyperNode
    | Queue
    | PodGroup
    | NativeGroup
    | AITrainingJob
    | TrainingJob
    | _NotedPod
)


class SchedulerMirror:
    """Follows objects, and opens sessions of the scheduler over them."""

    def __init__(self, config: Config = DEFAULT) -> None:
        self.config = _for_trials(config)
        self._snapshot = SchedulerSnapshot(SCHEDULERS)
        self._changed: dict[str, dict[str, Mirrored | None]] = {kind: {} for kind in _ORDER}
        self._queues: dict[str, Queue] = {}
        self._groups: dict[Key, PodGroup] = {}
        # Groups that the jobs will have: they stand in where none exists yet.
        self._stand_ins: dict[Key, PodGroup] = {}
        # Pods that keep others away by required anti-affinity: they may matter to any replica.
        self._refusing_pods: dict[Key, None] = {}
        # Groups and pods that say where in the network they must be.
        self._constrained: dict[tuple[str, Key], None] = {}
        # By kind and name: objects that the scheduler is careful about, since not all is known.
        self._unreadable: dict[tuple[str, str], str] = {}

    # --- objects that come, change and go

    def put_namespace(self, name: str, namespace: Namespace | None) -> None:
        self._changed["namespace"][name] = namespace

    def put_priority_class(self, name: str, priority_class: PriorityClass | None) -> None:
        self._changed["class"][name] = priority_class

    def put_node(self, name: str, node: Node | None, *, is_unreadable: bool = False) -> None:
        self._changed["node"][name] = node
        self._note_unreadable("node", name, is_unreadable)

    def put_hyper_node(self, name: str, hyper_node: HyperNode | None) -> None:
        self._changed["domain"][name] = hyper_node

    def put_pod(
        self,
        key: Key,
        pod: Pod | None,
        claim: ReplicaClaim | None = None,
        *,
        is_unreadable: bool = False,
    ) -> None:
        """Notes a pod; `claim` is the replica of a job that it is."""
        self._note_unreadable("pod", str(key), is_unreadable)
        self._changed["pod"][str(key)] = None if pod is None else _NotedPod(pod, claim)
        asks = pod is not None and request_of(pod.metadata.annotations) is not None
        self._note_constrained("pod", key, asks)
        if pod is not None and _refuses_others(pod):
            self._refusing_pods[key] = None
        else:
            self._refusing_pods.pop(key, None)

    def put_job(self, key: Key, job: AITrainingJob | None) -> None:
        self._changed["job"][str(key)] = job

    def put_trainers(self, key: Key, job: TrainingJob | None) -> None:
        self._changed["trainers"][str(key)] = job

    def put_group(self, key: Key, group: PodGroup | None, *, is_unreadable: bool = False) -> None:
        self._note_unreadable("group", str(key), is_unreadable)
        spec = None if group is None else group.spec
        is_limited = spec is not None and bool(spec.network_topology or spec.sub_group_policy)
        self._note_constrained("group", key, is_limited)
        if group is None:
            self._groups.pop(key, None)
        else:
            self._groups[key] = group
        self._changed["group"][str(key)] = group or self._stand_ins.get(key)

    def put_native_group(
        self, key: Key, group: NativeGroup | None, *, is_unreadable: bool = False
    ) -> None:
        """Notes a group of Kubernetes itself. Replicas of jobs are in the groups of their jobs."""
        self._note_unreadable("native", str(key), is_unreadable)
        is_limited = group is not None and bool(group.spec.scheduling_constraints.topology)
        self._note_constrained("native", key, is_limited)
        self._changed["native"][str(key)] = group

    def expect_group(self, key: Key, job: AutoscalerJob | None) -> None:
        """Notes the job whose group this is; None once there is no live one."""
        stand_in = None if job is None else group_of(job)
        if self._stand_ins.get(key) == stand_in:
            return
        if stand_in is None:
            del self._stand_ins[key]
        else:
            self._stand_ins[key] = stand_in
        if key not in self._groups:
            self._changed["group"][str(key)] = stand_in

    def put_queue(self, name: str, queue: Queue | None, *, is_unreadable: bool = False) -> None:
        self._note_unreadable("queue", name, is_unreadable)
        self._changed["queue"][name] = queue
        if queue is None:
            self._queues.pop(name, None)
        else:
            self._queues[name] = queue

    def _note_constrained(self, kind: str, key: Key, is_constrained: bool) -> None:
        if is_constrained:
            self._constrained[kind, key] = None
        else:
            self._constrained.pop((kind, key), None)

    def _note_unreadable(self, kind: str, name: str, is_unreadable: bool) -> None:
        if is_unreadable:
            self._unreadable[kind, name] = f"{kind} {name}"
        else:
            self._unreadable.pop((kind, name), None)

    # --- reading

    @property
    def has_refusing_pods(self) -> bool:
        return bool(self._refusing_pods)

    @property
    def has_topologies(self) -> bool:
        """Whether some gang may have to stay in one part of the network."""
        return bool(self._constrained)

    @property
    def limits_queues(self) -> bool:
        """Whether some queue may refuse a pod for which the cluster has room.

        What cannot be read may limit anything, and the scheduler then gives it nothing.
        """
        return bool(self._unreadable) or any(map(_is_limited, self._queues.values()))

    def queue_of(self, key: Key) -> str:
        """Returns the name of the queue of a group, whether the queue exists or not."""
        group = self._groups.get(key) or self._stand_ins.get(key)
        return (group.spec.queue if group is not None else "") or DEFAULT_QUEUE

    def has_queue(self, name: str) -> bool:
        return name in self._queues or name in BUILT_IN

    def snapshot(self) -> SchedulerSnapshot:
        """Puts in what has changed, and returns the scheduler's snapshot."""
        for name in BUILT_IN:
            # The scheduler creates these queues when it starts, and again when they are deleted.
            if name not in self._queues and name not in self._snapshot.queues:
                self._changed["queue"][name] = None
        for kind in _ORDER:
            changed = self._changed[kind]
            for name in sorted(changed):
                new = changed[name]
                self._remove(kind, name) if new is None else self._put(kind, name, new)
            changed.clear()
        return self._snapshot

    def session(self) -> Session:
        """Opens a session of the scheduler. Rules that depend on time are off in it."""
        return Session(self.snapshot(), self.config, PLUGINS)

    def _put(self, kind: str, name: str, new: Mirrored) -> None:
        held, why = self._snapshot, self._unreadable.get((kind, name), "")
        match new:
            case Namespace():
                held.put_namespace(name, new.metadata.labels)
            case PriorityClass():
                held.put_priority_class(new)
            case Node():
                held.put_node(_with_pods(new), why)
            case HyperNode():
                held.hyper_nodes.put(new)
            case Queue():
                held.put_queue(new, why)
            case PodGroup() | NativeGroup():
                self._put_group(new, why)
            case AITrainingJob():
                held.put_training_job(new)
            case TrainingJob():
                held.put_trainers(new)
            case _NotedPod():
                self._put_pod(new.as_scheduled(), why)

    def _put_group(self, group: PodGroup | NativeGroup, unreadable: str) -> None:
        if isinstance(group, PodGroup):
            self._snapshot.put_group(group, unreadable)
        else:
            self._snapshot.put_native_group(group.metadata.key, group, unreadable)

    def _remove(self, kind: str, name: str) -> None:
        held = self._snapshot
        removals: Mapping[str, Callable[[str], None]] = {
            "namespace": held.remove_namespace,
            "class": held.remove_priority_class,
            "node": held.remove_node,
            "domain": held.hyper_nodes.remove,
            "queue": self._remove_queue,
            "group": held.remove_group,
            "native": lambda key: held.remove_native_group(Key(*key.split("/", 1))),
            "job": held.remove_training_job,
            "trainers": lambda key: held.remove_training_job(trainers_key(key)),
            "pod": self._remove_pod,
        }
        removals[kind](name)

    def _put_pod(self, pod: Pod, unreadable: str) -> None:
        """Puts a pod in. One of ours without a group is a gang of one in the default queue."""
        if is_ungrouped(pod, SCHEDULERS):
            self._snapshot.put_group(virtual_group(pod, DEFAULT_QUEUE))
            self._snapshot.put_pod(pod, virtual_group_name(pod), unreadable)
        else:
            self._snapshot.put_pod(pod, unreadable=unreadable)

    def _remove_pod(self, key: str) -> None:
        task = self._snapshot.task(key)
        self._snapshot.remove_pod(key)
        if task is not None and is_ungrouped(task.pod, SCHEDULERS):
            namespace, name = task.pod.metadata.namespace, virtual_group_name(task.pod)
            self._snapshot.remove_group(f"{namespace}/{name}")

    def _remove_queue(self, name: str) -> None:
        self._snapshot.remove_queue(name)
        if name in BUILT_IN:
            spec = convert(BUILT_IN[name], QueueSpec)
            self._snapshot.put_queue(Queue(metadata=ObjectMeta(name=name), spec=spec))


def group_of(job: AutoscalerJob) -> PodGroup:
    """Returns the group that the operator creates for a job."""
    minimums = {role.name: role.gang_minimum for role in job.roles}
    phase = PodGroupPhase.RUNNING if job.is_running else PodGroupPhase.PENDING
    return PodGroup(
        metadata=ObjectMeta(
            name=job.group.name, namespace=job.group.namespace, creation_timestamp=job.created
        ),
        spec=PodGroupSpec(
            min_member=sum(minimums.values()),
            min_task_member=minimums,
            queue=job.queue,
            priority_class_name=job.priority,
        ),
        status=PodGroupStatus(phase=phase),
    )


def with_index(pod: Pod, claim: ReplicaClaim) -> Pod:
    """Returns a job's pod with the labels of its replica, which pods written by hand may lack."""
    index = "" if claim.index is None else str(claim.index)
    if claim.job.kind is JobKind.TRAINING_JOB:
        marks = {COMPLETION_INDEX: index}
    else:
        marks = {JOB_LABEL: claim.job.name, ROLE_LABEL: claim.role, INDEX_LABEL: index}
    labels = pod.metadata.labels
    if all(name in labels for name in marks):
        return pod
    meta = msgspec.structs.replace(pod.metadata, labels={**marks, **labels})
    return msgspec.structs.replace(pod, metadata=meta)


def as_member(pod: Pod, group: str, role: str) -> Pod:
    """Returns a job's pod with the marks of its group, which pods written by hand lack.

    A pod without a scheduler's name was written by hand, too: the API server fills it in.
    """
    notes, spec = pod.metadata.annotations, pod.spec
    if notes.get(GROUP_ANNOTATION) and notes.get(ROLE_KEY) and spec.scheduler_name:
        return pod
    marks = {GROUP_ANNOTATION: group, ROLE_KEY: role, **notes}
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, annotations=marks),
        spec=msgspec.structs.replace(spec, scheduler_name=spec.scheduler_name or SCHEDULER),
    )


def _refuses_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    side = affinity.pod_anti_affinity if affinity is not None else None
    return bool(side and side.required_during_scheduling_ignored_during_execution)


def _is_limited(queue: Queue) -> bool:
    spec = queue.spec
    return bool(
        queue.metadata.name not in BUILT_IN
        or spec.capability
        or spec.guarantee.resource
        or queue.status.state in SHUT
    )


def _with_pods(node: Node) -> Node:
    allocatable = node.status.allocatable
    if PODS in allocatable:
        return node
    status = msgspec.structs.replace(
        node.status, allocatable={**allocatable, PODS: _PODS_UNLIMITED}
    )
    return msgspec.structs.replace(node, status=status)


def _for_trials(config: Config) -> Config:
    """Returns the configuration without the check of volume claims, which are not followed here."""
    return replace(config, tiers=tuple(tuple(map(_without_volumes, tier)) for tier in config.tiers))


def _without_volumes(option: PluginOption) -> PluginOption:
    if option.name != "predicates":
        return option
    return replace(option, arguments=Arguments({**option.arguments.values, **_VOLUMES_OFF}))
