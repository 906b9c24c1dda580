"""Keeps the sums of the cluster's resources up to date as nodes, pods and jobs change.

Objects may come in any order: a snapshot equals one that is computed from scratch from all objects
held. A change only marks the pods and jobs that it affects as dirty; the next snapshot recounts
those and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from swell.api.core import Namespace, Node
from swell.api.meta import Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.requests import CPU, MEMORY, PODS
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import (
    AutoscalerSnapshot,
    ClusterResource,
    IntArray,
    Usage,
)
from swell.autoscaler.job_state import (
    CountedNodes,
    JobState,
    ReplicaCount,
    RoleState,
    is_hopeless,
    is_refused_for_queue,
    tally,
    waiting_native_group,
)
from swell.autoscaler.job_views import AnyJob, id_of, view_job
from swell.autoscaler.mirror import SchedulerMirror
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.views import (
    AutoscalerJob,
    AutoscalerNode,
    AutoscalerPod,
    JobId,
    JobKind,
    view_node,
    view_pod,
)
from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.model.elastic import JOB_LABEL
from swell.scheduler.model.native_groups import native_job_name

H = TypeVar("H", bound=Hashable)
M = TypeVar("M", bound=Hashable)

_WAITING_PHASES = frozenset({PodGroupPhase.EMPTY, PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
# Idle amounts are kept as 64-bit integers: larger ones are cut here, so that none wraps around.
_AMOUNT_MAX = 2**61


class Ledger:
    """Nodes, pods, jobs and groups, and the amounts that they ask for.

    `changes` counts the events that may make room for a raise that failed before: changed nodes,
    bound pods that left, groups that are no longer refused.
    """

    def __init__(self, reader: NeedsReader, scheduler: Config = DEFAULT) -> None:
        self._reader = reader
        self._mirror = SchedulerMirror(scheduler)
        self._nodes: dict[str, AutoscalerNode] = {}
        self._pods: dict[Key, AutoscalerPod] = {}
        self._jobs: dict[JobId, AutoscalerJob] = {}
        # Dicts without values are sets in insertion order: what is decided must not depend on
        # the order of a hash table.
        self._refused: dict[Key, None] = {}  # groups refused for their queue
        self._waiting: dict[Key, None] = {}  # groups that wait for room
        # Groups of Kubernetes itself refused for their queue, with that of the job they are of.
        self._refused_natives: dict[Key, Key] = {}
        self._pods_of: dict[JobId, dict[Key, None]] = {}
        self._pods_on: dict[str, dict[Key, None]] = {}  # by node
        self._unreadable_on: dict[str, dict[Key, None]] = {}  # pods of unknown needs, by node
        self._jobs_of: dict[Key, dict[JobId, None]] = {}  # by group
        self._states: dict[JobId, JobState] = {}
        self._stopped_jobs: dict[JobId, None] = {}
        # What each pod or job was last counted as, to be subtracted when that changes.
        self._counts: dict[Key | JobId, tuple[ReplicaCount, ...]] = {}
        self._used: dict[str, dict[str, int]] = {}  # by node and resource
        self._requested: dict[str, int] = {}
        self._limited: dict[str, int] = {}
        self._dirty_pods: dict[Key, None] = {}
        self._dirty_jobs: dict[JobId, None] = {}
        self._counted_nodes = CountedNodes(())
        self._are_nodes_dirty = False
        self.changes = 0

    # --- objects that come, change and go

    def put_node(self, node: Node, *, is_unreadable: bool = False) -> None:
        new = view_node(node, self._reader, is_unreadable=is_unreadable)
        self._replace_node(new.name, new)
        self._mirror.put_node(new.name, node, is_unreadable=new.is_unreadable)

    def drop_node(self, name: str) -> None:
        self._mirror.put_node(name, None)
        self._replace_node(name, None)

    def put_pod(self, pod: Pod, *, is_unreadable: bool = False) -> None:
        new = view_pod(pod, self._reader, is_unreadable=is_unreadable)
        self._replace_pod(new.key, new)
        self._mirror.put_pod(new.key, pod, new.claim, is_unreadable=new.is_unreadable)

    def drop_pod(self, key: Key) -> None:
        self._mirror.put_pod(key, None)
        self._replace_pod(key, None)

    def put_job(self, job: AnyJob, *, is_malformed: bool = False) -> None:
        """Adds or replaces a job. A malformed one keeps its sizes until it can be read."""
        view = view_job(job, self._reader)
        if view is not None and is_malformed:
            view = replace(view, roles=tuple(replace(one, is_auto=False) for one in view.roles))
        if view is None:
            self.drop_job(id_of(job))
            return
        if isinstance(job, TrainingJob):
            self._mirror.put_trainers(view.id.key, job)
        else:
            self._mirror.put_job(view.id.key, job)
        # Most updates of a job change only its counts, which the view leaves out.
        if self._jobs.get(view.id) != view:
            self._forget_job(view.id)
            self._jobs[view.id] = view
            if view.yielded_since is not None:
                self._stopped_jobs[view.id] = None
            _add_member(self._jobs_of, view.group, view.id)
            self._mirror.expect_group(view.group, view if view.is_live else None)
            self._mark_job(view.id)

    def drop_job(self, job: JobId) -> None:
        if job.kind is JobKind.TRAINING_JOB:
            self._mirror.put_trainers(job.key, None)
        else:
            self._mirror.put_job(job.key, None)
        self._forget_job(job)

    def _forget_job(self, job: JobId) -> None:
        view = self._jobs.pop(job, None)
        self._stopped_jobs.pop(job, None)
        if view is not None:
            self._mirror.expect_group(view.group, None)
            _remove_member(self._jobs_of, view.group, job)
            self._mark_job(job)

    def put_queue(self, queue: Queue, *, is_unreadable: bool = False) -> None:
        self._mirror.put_queue(queue.metadata.name, queue, is_unreadable=is_unreadable)

    def drop_queue(self, name: str) -> None:
        self._mirror.put_queue(name, None)

    def put_hyper_node(self, name: str, hyper_node: HyperNode | None) -> None:
        self._mirror.put_hyper_node(name, hyper_node)

    def put_namespace(self, namespace: Namespace) -> None:
        self._mirror.put_namespace(namespace.metadata.name, namespace)

    def drop_namespace(self, name: str) -> None:
        self._mirror.put_namespace(name, None)

    def put_priority_class(self, priority_class: PriorityClass) -> None:
        self._mirror.put_priority_class(priority_class.metadata.name, priority_class)

    def drop_priority_class(self, name: str) -> None:
        self._mirror.put_priority_class(name, None)

    def put_group(self, group: PodGroup, *, is_unreadable: bool = False) -> None:
        key = group.metadata.key
        self._mirror.put_group(key, group, is_unreadable=is_unreadable)
        self._refuse(key, is_refused_for_queue(group))
        if group.status.phase in _WAITING_PHASES:
            self._waiting[key] = None
        else:
            self._waiting.pop(key, None)

    def drop_group(self, key: Key) -> None:
        self._mirror.put_group(key, None)
        self._refuse(key, False)
        self._waiting.pop(key, None)

    def put_native_group(
        self, key: Key, group: NativeGroup | None, *, is_unreadable: bool = False
    ) -> None:
        """Adds, replaces or drops a group of Kubernetes itself.

        Those of our jobs count for their jobs, which say themselves whether they wait.
        """
        self._mirror.put_native_group(key, group, is_unreadable=is_unreadable)
        own = Key(key.namespace, native_job_name(key.name))
        job = "" if group is None else group.metadata.labels.get(JOB_LABEL, "")
        waits, is_refused = waiting_native_group(group)
        if waits and not job:
            self._waiting[own] = None
        else:
            self._waiting.pop(own, None)
        former = self._refused_natives.pop(own, None)
        if is_refused:
            self._refused_natives[own] = Key(key.namespace, job) if job else own
        for held in {former: None, self._refused_natives.get(own): None}:
            if held is not None:
                self._refuse(held, held in self._refused_natives.values())

    # --- reading

    def snapshot(self) -> AutoscalerSnapshot:
        """Recount what has changed, and return the cluster and its live jobs."""
        self._recount_dirty()
        states = tuple(self._states[job] for job in sorted(self._states))
        # The phase of a group may be stale, or never be written by another scheduler. A running
        # job proves that its group no longer waits.
        over = {job.view.group for job in states if job.is_hopeless or job.view.is_running}
        pending = {job.view.group for job in states if job.is_pending}
        waiting = frozenset((self._waiting.keys() - over) | pending)
        return AutoscalerSnapshot(self._resource(), states, waiting, self._stopped())

    def _stopped(self) -> tuple[JobState, ...]:
        """Returns the jobs that have given their devices to others, sorted."""
        views = (self._jobs[id_] for id_ in sorted(self._stopped_jobs))
        return tuple(
            JobState(
                view,
                tuple(RoleState(role, ()) for role in view.roles),
                is_pending=False,
                is_hopeless=False,
            )
            for view in views
        )

    def is_waiting(self, job: JobId) -> bool:
        """Whether a live job waits, or may wait, for room by its phase."""
        view = self._jobs.get(job)
        return view is not None and view.is_live and (view.is_waiting or view.is_creating)

    def asking_job(self, key: Key) -> JobId | None:
        """Returns the job of a pod that has no node yet."""
        pod = self._pods.get(key)
        return pod.claim.job if pod is not None and pod.claim is not None and not pod.node else None

    # --- marking what a change affects

    def _replace_node(self, name: str, new: AutoscalerNode | None) -> None:
        old = self._nodes.get(name)
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new
        if old is new or (old is not None and new is not None and not new.differs_from(old)):
            return
        self.changes += 1
        self._are_nodes_dirty = True
        # Pods on a node that begins or ceases to count have to be counted elsewhere.
        if (old is not None and old.is_counted) != (new is not None and new.is_counted):
            for key in self._pods_on.get(name, ()):
                self._mark_pod(key)

    def _replace_pod(self, key: Key, new: AutoscalerPod | None) -> None:
        old = self._pods.pop(key, None)
        if old is not None:
            _remove_member(self._pods_on, old.node, key)
            if old.is_unreadable and not old.is_finished:
                _remove_member(self._unreadable_on, old.node, key)
            if old.claim is not None:
                _remove_member(self._pods_of, old.claim.job, key)
            self._mark_pod(key, old)
        if new is not None:
            self._pods[key] = new
            _add_member(self._pods_on, new.node, key)
            if new.is_unreadable and not new.is_finished:
                _add_member(self._unreadable_on, new.node, key)
            if new.claim is not None:
                _add_member(self._pods_of, new.claim.job, key)
            self._mark_pod(key)
        # A bound pod that goes may have made room for a raise that failed before.
        had_room = old is not None and old.is_bound and not old.is_finished
        is_there = new is not None and new.is_bound and not new.is_finished
        was_unreadable = old is not None and old.is_unreadable
        if had_room and (not is_there or was_unreadable):
            self.changes += 1

    def _refuse(self, key: Key, refused: bool) -> None:
        if (key in self._refused) == refused:
            return
        if refused:
            self._refused[key] = None
        else:
            del self._refused[key]
            self.changes += 1
        for job in self._jobs_of.get(key, ()):
            self._dirty_jobs[job] = None

    def _mark_pod(self, key: Key, pod: AutoscalerPod | None = None) -> None:
        self._dirty_pods[key] = None
        pod = pod or self._pods.get(key)
        if pod is not None and pod.claim is not None:
            self._dirty_jobs[pod.claim.job] = None

    def _mark_job(self, job: JobId) -> None:
        self._dirty_jobs[job] = None
        for key in self._pods_of.get(job, ()):
            self._dirty_pods[key] = None

    # --- recounting what was marked

    def _recount_dirty(self) -> None:
        if self._are_nodes_dirty:
            self._are_nodes_dirty = False
            counted = (node for node in self._nodes.values() if node.is_counted)
            self._counted_nodes = CountedNodes(sorted(counted, key=lambda node: node.name))
            # Whether a job is hopeless depends on the nodes.
            for job, state in self._states.items():
                if state.is_pending or state.is_hopeless:
                    self._dirty_jobs[job] = None
        for key in self._dirty_pods:
            self._recount(key, self._pod_counts(key))
        self._dirty_pods.clear()
        for job in self._dirty_jobs:
            self._recount(job, self._job_counts(job))
        self._dirty_jobs.clear()

    def _pod_counts(self, key: Key) -> tuple[ReplicaCount, ...]:
        """Count a pod by itself, unless it has finished, leaves, or counts as a job's replica.

        The garbage collector deletes the pods of a deleted job a moment later than the job: those
        without a node ask for no room in the meantime.
        """
        pod = self._pods.get(key)
        if pod is None or pod.is_finished or pod.is_leaving or self._owner(pod) is not None:
            return ()
        if pod.node and not self._is_counted(pod.node):
            return ()
        if not pod.node and self._leaves_with_job(pod):
            return ()
        return (ReplicaCount(pod.node, pod.needs),)

    def _job_counts(self, job: JobId) -> tuple[ReplicaCount, ...]:
        self._states.pop(job, None)
        view = self._jobs.get(job)
        if view is None or not view.is_live:
            return ()
        held = [self._pods[key] for key in self._pods_of.get(job, ())]
        own = [pod for pod in held if self._owner(pod) is not None]
        tallied = tally(view, own, self._is_counted)
        # A TrainingJob is Creating until its pods run: it waits only if one has no node.
        is_waiting = view.is_waiting or (view.is_creating and tallied.has_unscheduled)
        # A gang is bound as a whole: with its first pod bound, a refusal is of the time before.
        is_refused = view.group in self._refused and not any(pod.node for pod in own)
        hopeless = is_waiting and is_hopeless(view, self._counted_nodes, is_refused=is_refused)
        asking = tuple(count for count in tallied.counts if not count.node)
        self._states[job] = JobState(
            view, tallied.roles, is_waiting and not hopeless, hopeless, asking
        )
        # A hopeless job presses on no other: only its pods that have a node count.
        if hopeless:
            return tuple(count for count in tallied.counts if count.node)
        return tallied.counts

    def _owner(self, pod: AutoscalerPod) -> AutoscalerJob | None:
        """Returns the live job of a replica; pods of an earlier job of its name have none."""
        claim = pod.claim
        view = self._jobs.get(claim.job) if claim is not None else None
        if claim is None or view is None or not view.is_live:
            return None
        # UIDs are missing in objects that were written by hand: then the name decides.
        if claim.uid and view.uid and claim.uid != view.uid:
            return None
        return view if any(role.name == claim.role for role in view.roles) else None

    def _leaves_with_job(self, pod: AutoscalerPod) -> bool:
        view = self._jobs.get(pod.claim.job) if pod.claim is not None else None
        return view is not None and view.is_leaving

    def _is_counted(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.is_counted

    def _recount(self, account: Key | JobId, counts: tuple[ReplicaCount, ...]) -> None:
        old = self._counts.get(account, ())
        if old == counts:
            return
        self._add(old, -1)
        self._add(counts, 1)
        if counts:
            self._counts[account] = counts
        else:
            del self._counts[account]

    def _add(self, counts: Iterable[ReplicaCount], sign: int) -> None:
        for count in counts:
            n = sign * count.n
            _sum_up(self._requested, count.needs.requests, n)
            _sum_up(self._limited, count.needs.limits, n)
            if count.node:
                used = self._used.setdefault(count.node, {})
                _sum_up(used, count.needs.requests, n)
                _sum_up(used, {PODS: 1}, n)
                if not used:
                    del self._used[count.node]

    def _resource(self) -> ClusterResource:
        totals = self._counted_nodes.totals
        # Cpu and memory are listed even in an empty cluster.
        names = sorted({CPU, MEMORY, *totals, *_used_names(self._requested, self._limited)})
        usage = {
            name: Usage(
                totals.get(name, 0), self._requested.get(name, 0), self._limited.get(name, 0)
            )
            for name in names
        }
        gpus = [usage[name] for name in self._reader.gpu_resources if name in usage]
        n_limited = sum(one.limited for one in gpus)
        # Of GPUs requests and limits are the same: see `needs`.
        gpu = Usage(sum(one.total for one in gpus), n_limited, n_limited)
        return ClusterResource(
            nodes=self._counted_nodes.nodes,
            usage=usage,
            gpu=gpu,
            gpu_resources=self._reader.gpu_resources,
            mirror=self._mirror,
            idle=self._idle(totals),
            pod_slots=self._pod_slots(),
        )

    def _pod_slots(self) -> IntArray:
        nodes = self._counted_nodes.nodes
        nothing: dict[str, int] = {}
        left = (
            0
            if self._is_closed(node)
            else node.n_pods_max - self._used.get(node.name, nothing).get(PODS, 0)
            for node in nodes
        )
        return np.fromiter(left, np.int64, len(nodes))

    def _is_closed(self, node: AutoscalerNode) -> bool:
        """Whether something on the node is unreadable: how much room is left is not known."""
        return node.is_unreadable or node.name in self._unreadable_on

    def _idle(self, names: Iterable[str]) -> dict[str, IntArray]:
        nodes = self._counted_nodes.nodes
        idle: dict[str, IntArray] = {}
        nothing: dict[str, int] = {}
        for name in names:
            left = (
                node.allocatable.get(name, 0) - self._used.get(node.name, nothing).get(name, 0)
                for node in nodes
            )
            most = (0 if self._is_closed(node) else _AMOUNT_MAX for node in nodes)
            bounded = (
                max(-_AMOUNT_MAX, min(amount, limit))
                for amount, limit in zip(left, most, strict=True)
            )
            idle[name] = np.fromiter(bounded, np.int64, len(nodes))
        return idle


def _add_member(index: dict[H, dict[M, None]], at: H, member: M) -> None:
    index.setdefault(at, {})[member] = None


def _remove_member(index: dict[H, dict[M, None]], at: H, member: M) -> None:
    members = index[at]
    del members[member]
    if not members:
        del index[at]


def _sum_up(sums: dict[str, int], amounts: Mapping[str, int], n: int) -> None:
    """Add so many times the amounts. A resource that nothing asks for any more is dropped."""
    for name, amount in amounts.items():
        total = sums.get(name, 0) + n * amount
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


def _used_names(*sums: dict[str, int]) -> Iterable[str]:
    return (name for one in sums for name, amount in one.items() if amount)
