"""Keeps the snapshot up to date with the informers and with assumed writes not confirmed yet.

A change costs as much as it changes. A pod is what the API server reports, with three exceptions,
all for the same pod by UID: it never loses a node again, it keeps a node nominated for it, and once
its eviction is decided it counts as leaving. Nothing is decided or written here.

An object that cannot be decoded is taken as its informer's placeholder, so it goes on holding what
it held. If a field was never readable the snapshot is given the reason, and takes the side of
caution. `feed` builds the snapshot anew when a handler has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from swell.api.gpu_faults import rules_of
from swell.api.meta import Key, Uid
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.resource import ApiObject
from swell.api.scheduling import PodGroup, PodGroupPhase
from swell.runtime.cache import StaleListError
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError
from swell.runtime.feed import FeedMeter
from swell.scheduler.live.dirty import GATHERING_S, DirtyMarks
from swell.scheduler.live.feed import AssumedState, SnapshotFeed
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.live.objects import (
    bare_pod,
    group_facts,
    mirror_small_kinds,
    pod_facts,
    pod_of_group,
    queue_facts,
)
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.live.training_targets import TrainingTargets
from swell.scheduler.model.devices.extended import owner_of
from swell.scheduler.model.gpus import GpuKnowledge
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.native_groups import native_job_name, translated
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus, status_of
from swell.scheduler.model.ungrouped import (
    VIRTUAL_PREFIX,
    is_ungrouped,
    virtual_group,
    virtual_group_name,
)

# Errors of one request after which it is tried again; a read may also come back older than what is
# known already.
WRITE_FAILURES = (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError)
READ_FAILURES = (*WRITE_FAILURES, StaleListError)

T = TypeVar("T", bound=ApiObject)
# States of a task as the API server reports them, grouped by what may follow.
_FINISHED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
_ARRIVING = frozenset({TaskStatus.BINDING, TaskStatus.BOUND})
_ARRIVED = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
_PRESENT = frozenset({TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING})
# A pod's room does not depend on its status: one of an unknown phase counts as present.
_NO_ROOM: Final = ("status",)
_UNTOUCHED: Final[tuple[Task | None, str, JobInfo | None]] = (None, "", None)
# So many resource names are never too many.
_NAMES_MIN: Final = 32
# Fields of a queue that no decision depends on.
_COUNTS: Final = ("status.allocated", "status.pending", "status.running", "status.inqueue")


class SchedulerCache:
    """The snapshot of the scheduler. Every change that may need a decision sets a dirty mark.

    `assume` is done by the cycle itself, which moves tasks in the snapshot; `forget` undoes it.
    """

    def __init__(
        self,
        informers: SchedulerInformers,
        settings: SchedulerSettings,
        dirty: DirtyMarks,
        meter: FeedMeter | None = None,
    ) -> None:
        self.informers = informers
        rules = rules_of(settings.gpu_fault_conditions, settings.gpu_fault_taints)
        self.snapshot = SchedulerSnapshot(
            settings.scheduler_names,
            settings.default_queue,
            GpuKnowledge(rules, settings.gpu_resources, settings.gpu_drivers),
        )
        # Jobs that may have changed since `take_dirty_jobs`, in the order of their changes.
        self._dirty_jobs: dict[str, None] = {}
        self._default_queue = settings.default_queue
        self._dirty = dirty
        self._wake = dirty.mark
        self.targets = TrainingTargets(informers, self.snapshot, dirty.mark)
        self._was_filled = False
        self._mapping: Mapping[str, str] = {}  # resources to classes that stand for them
        self._n_names = _NAMES_MIN  # resource names after the last rebuild, or a few
        self._feed = SnapshotFeed(
            self._clear, self._resume, self._take_aside, self._remember, meter
        )
        # The task and the job that the last handler was to replace, and the node of the task.
        self._touched = _UNTOUCHED
        # How many pods and groups have arrived so far; the loop detects floods by it.
        self.n_arrived = 0
        # How many groups have gone so far: when it changes, records about groups are cleaned up.
        self.n_groups_gone = 0

    async def fill(self) -> None:
        """Wait until all required informers are synced, then build the snapshot from them.

        Handlers are called for all known objects when they are added: nodes and groups come first,
        because pods refer to them.
        """
        for informer in self.informers.required:
            await informer.wait_synced()
        seen, snapshot, follow = self.informers, self.snapshot, self._feed.follow
        mirror_small_kinds(seen, snapshot, follow, self._wake)
        follow(seen.nodes, self._take_node)
        follow(seen.queues, self._take_queue)
        follow(seen.groups, self._take_group)
        follow(seen.native_groups, self._take_native_group)
        follow(seen.jobs, self.targets.take_job)
        follow(seen.trainer_jobs, self.targets.take_trainers)
        # Last: a pod looks up its node, its group, its job and its claim.
        follow(seen.pods, self._take_pod)
        follow(seen.resource_claims, self._take_claim)
        self._mapping = snapshot.devices.extended.mapping
        self._was_filled = True

    @property
    def is_filled(self) -> bool:
        """Whether the snapshot has everything, so that decisions can be made on it."""
        return self._was_filled and not self._feed.is_broken

    def on_rebuilt(self, call: Callable[[], None]) -> None:
        """Have a function called whenever the snapshot was built anew."""
        self._feed.on_rebuilt.append(call)

    # --- building the snapshot anew

    def compact(self) -> None:
        """Build the snapshot anew if most resource names in it may be those of objects gone.

        Vectors have a place for each name ever seen. The number of names at least doubles between
        two rebuilds, so these cost little.
        """
        if self.is_filled and len(self.snapshot.dimensions.names) > 2 * self._n_names:
            self._feed.rebuild()
            self._n_names = max(_NAMES_MIN, len(self.snapshot.dimensions.names))
        # Which pods need claims for extended resources depends on all classes.
        if self.is_filled and self._mapping != self.snapshot.devices.extended.mapping:
            self._feed.rebuild()
            self._mapping = self.snapshot.devices.extended.mapping

    def _remember(self, key: Key | None) -> None:
        """Note what a handler is about to replace, or that none is at work."""
        if key is None:
            self._touched = _UNTOUCHED
            return
        snapshot, text = self.snapshot, str(key)
        task = snapshot.task(text)
        node = self._node_of(task) if task is not None else ""
        # A key may be that of a group of either kind: whichever job there is, it is kept.
        native = f"{key.namespace}/{native_job_name(key.name)}"
        self._touched = (task, node, snapshot.jobs.get(text) or snapshot.jobs.get(native))

    def _clear(self) -> AssumedState:
        """Empty the snapshot. Returns what is assumed in it and no server reports."""
        snapshot = self.snapshot
        assumed = AssumedState(
            {task.key: (task, self._node_of(task)) for task in snapshot.tasks()},
            {key: job for key, job in snapshot.jobs.items() if not is_virtual(job)},
        )
        task, node, job = self._touched
        if task is not None:
            assumed.tasks[task.key] = (task, node)
        if job is not None and not is_virtual(job):
            assumed.jobs[job.key] = job
        snapshot.clear()
        self.targets.clear()
        return assumed

    def _resume(self, assumed: AssumedState) -> None:
        """Assume again, of pods and groups that are still the same, what was assumed before."""
        for key, (old, node) in assumed.tasks.items():
            task = self.snapshot.task(key)
            if task is not None and task.pod.metadata.uid == old.pod.metadata.uid:
                task.nominated = old.nominated
                self._keep(old, task, node)
        for key, old_job in assumed.jobs.items():
            job = self.snapshot.jobs.get(key)
            if job is not None and job.group.metadata.uid == old_job.group.metadata.uid:
                self._keep_phase(job, old_job)
        self.n_groups_gone += 1  # some may be gone: records about them are looked through
        self._dirty_jobs.update(dict.fromkeys(self.snapshot.jobs))
        self._wake()

    def _take_aside(self, resource: str, key: Key, why: str, *, is_bare: bool) -> None:
        """Put in an object on which its handler fails: a pod goes on holding its node closed.

        It takes an unknown amount of its queue, too, unless nothing but its node can be taken.
        Any other object counts as absent: a node offers no room then, and jobs without their
        group or queue get nothing.
        """
        pod = self.informers.pods.get(key)
        if resource != str(self.informers.pods.resource):
            return
        old = self.snapshot.task(str(key))
        if old is not None:
            self._remove_pod(old)
        if pod is None:
            return
        held = bare_pod(pod) if is_bare else pod_of_group(pod)
        group = "" if is_bare else self._virtual_group(held)
        self.snapshot.put_pod(held, group, unreadable=f"pod {key}: {why}")

    def _node_of(self, task: Task) -> str:
        return self.snapshot.nodes.names[task.node] if task.node != NOWHERE else ""

    def take_dirty_jobs(self) -> list[JobInfo]:
        """Returns the jobs that may have changed since the last call."""
        jobs = self.snapshot.jobs
        dirty_jobs = [jobs[key] for key in self._dirty_jobs if key in jobs]
        self._dirty_jobs.clear()
        return dirty_jobs

    def task_of(self, key: Key, uid: Uid) -> Task | None:
        """Returns the task of this pod, or None if it is gone or another pod has its name."""
        task = self.snapshot.task(str(key))
        return task if task is not None and task.pod.metadata.uid == uid else None

    def mark_dirty(self, job: JobInfo | None) -> None:
        if job is not None:
            self._dirty_jobs[job.key] = None
            self._wake()

    def _note_arrival(self, job: JobInfo) -> None:
        """Record a new pod or group: a cycle is due once the gang has its minimum of pods."""
        self.n_arrived += 1
        if len(job.tasks) >= job.min_member:
            self.mark_dirty(job)
        else:
            self._dirty_jobs[job.key] = None
            self._dirty.mark_soon(GATHERING_S)

    def _advance(self, task: Task, status: TaskStatus) -> None:
        """Move a task that went as planned. Only statuses change, so the mark is set for later."""
        self.snapshot.move(task, status, task.node)
        if task.job is not None:
            self._dirty_jobs[task.job.key] = None
            self._dirty.mark_soon()

    # --- assumed results of our own writes

    def bound(self, task: Task) -> None:
        """Record that the server has accepted a binding."""
        if task.status is TaskStatus.BINDING:
            self._advance(task, TaskStatus.BOUND)
        elif task.status not in _ARRIVED:  # otherwise the watch was faster
            self.mark_dirty(task.job)

    def forget(self, task: Task) -> None:
        """Undo everything assumed about a task: it is again what the API server reports."""
        task.marked_for_deletion = False
        pod = task.pod
        status = status_of(pod)
        node = self.snapshot.place_of(pod, status)
        # A pod at or above its role's target will be deleted by the operator.
        if task.elastic is not None and status in _PRESENT and task.index >= task.elastic.target:
            status = TaskStatus.RELEASING
        if (task.status, task.node) != (status, node):
            self.snapshot.move(task, status, node)
        self.mark_dirty(task.job)

    def nominate(self, task: Task, node: str) -> None:
        """Keep room for a pending task on the node that an earlier process has nominated."""
        self.snapshot.move(task, TaskStatus.PIPELINED, self.snapshot.nodes.place(node))

    def mark_for_deletion(self, task: Task) -> None:
        """Count a task as leaving, before its eviction is written."""
        task.marked_for_deletion = True
        self.snapshot.move(task, TaskStatus.RELEASING, task.node)
        self.mark_dirty(task.job)

    # --- handlers of the informers

    def _take_node(self, key: Key) -> None:
        nodes, found = self.snapshot.nodes, self.informers.nodes.get(key)
        version = nodes.version
        if found is None:
            self.snapshot.remove_node(key.name)
        else:
            self.snapshot.put_node(found, self.informers.nodes.unreadable(key))
        if nodes.version != version:  # not only a heartbeat
            self._wake()

    def _take_queue(self, key: Key) -> None:
        found = self.informers.queues.get(key)
        entry = self.snapshot.queues.get(key.name)
        unreadable = self.informers.queues.unreadable(key, but=_COUNTS)
        if found is None:
            # Its jobs cannot run without a queue, and their reason has to be written.
            for job in entry.jobs.values() if entry else ():
                self._dirty_jobs[job.key] = None
            self.snapshot.remove_queue(key.name)
        elif (
            entry is not None
            and queue_facts(entry.object) == queue_facts(found)
            and (bool(entry.unreadable) == bool(unreadable))
        ):
            entry.object = found  # only the counts in its status have changed
            return
        else:
            self.snapshot.put_queue(found, unreadable)
            for job in self.snapshot.queues[key.name].jobs.values():
                self._dirty_jobs[job.key] = None
        self._wake()

    def _take_group(self, key: Key) -> None:
        found, known = self.informers.groups.get(key), self.snapshot.jobs.get(str(key))
        if found is None:
            self.snapshot.remove_group(str(key))
            self.n_groups_gone += 1
            self._wake()
            return
        found = self._with_queue(found)
        unreadable = self.informers.groups.unreadable(key)
        same = known if known and known.group.metadata.uid == found.metadata.uid else None
        is_alike = same is not None and bool(same.unreadable) == bool(unreadable)
        if same is not None and is_alike and group_facts(same.group) == group_facts(found):
            same.group = found
            if found.status.phase is not same.phase:
                self.mark_dirty(same)  # written by someone else, or older than our own write
            return
        # A group of another UID replaces the old one, which is gone without a delete event.
        self.n_groups_gone += known is not None and same is None
        self.snapshot.put_group(found, unreadable)
        job = self.snapshot.jobs[str(key)]
        if same is not None:
            self._keep_phase(job, same)
        self._note_arrival(job)

    def _take_native_group(self, key: Key) -> None:
        found = self.informers.native_groups.get(key)
        known = self.snapshot.jobs.get(f"{key.namespace}/{native_job_name(key.name)}")
        if found is None:
            self.snapshot.remove_native_group(key)
            self.n_groups_gone += 1
            self.mark_dirty(known)
            self._wake()
            return
        terms = None if known is None else known.native
        old = None if terms is None else terms.object
        same = known if old is not None and old.metadata.uid == found.metadata.uid else None
        unreadable = self.informers.native_groups.unreadable(key)
        is_alike = same is not None and bool(same.unreadable) == bool(unreadable)
        if same and terms and is_alike and _native_facts(old) == _native_facts(found):
            terms.object = found
            queue = same.group.spec.queue  # it may be that of the pods
            same.group = translated(key, found, queue)
            return
        self.n_groups_gone += known is not None and same is None
        self.snapshot.put_native_group(key, found, unreadable)
        job = self.snapshot.jobs[f"{key.namespace}/{native_job_name(key.name)}"]
        if same is not None:
            self._keep_phase(job, same)
        self._note_arrival(job)

    def _keep_phase(self, job: JobInfo, old: JobInfo) -> None:
        # The scheduler owns the phase, and our last write may not have come back yet.
        if old.phase is not PodGroupPhase.EMPTY:
            self.snapshot.set_phase(job, old.phase)

    def _take_pod(self, key: Key) -> None:
        pod, text = self.informers.pods.get(key), str(key)
        unreadable = self.informers.pods.unreadable(key, but=_NO_ROOM)
        old = self.snapshot.task(text)
        node = self._node_of(old) if old is not None else ""
        # A pod of the same name and another UID is another pod: nothing assumed carries over.
        if old is not None and (pod is None or old.pod.metadata.uid != pod.metadata.uid):
            self._remove_pod(old)
            old = None
        if pod is None:
            return
        pod = self.snapshot.devices.extended.with_claim(pod)
        is_alike = old is not None and bool(old.unreadable) == bool(unreadable)
        if old is not None and is_alike and pod_facts(old.pod) == pod_facts(pod):
            old.pod = pod
            return
        if old is not None and is_alike and self._goes_as_decided(old, pod):
            old.pod = pod
            self._advance(old, status_of(pod))
            return
        group_name = self._virtual_group(pod)
        # The pod has been given a group since: its virtual group goes.
        if old is not None and _is_virtual(old.job) and not group_name:
            self._remove_pod(old)
        task = self.snapshot.put_pod(pod, group_name, unreadable)
        if old is not None:
            self._keep(old, task, node)
        if old is None and task.job is not None and task.status is TaskStatus.PENDING:
            self._note_arrival(task.job)
            return
        # A pod of another scheduler that has no node takes nothing and waits for nobody here. A
        # flood of them must not keep cycles running.
        if old is None and task.job is None and not pod.spec.node_name:
            return
        self.mark_dirty(task.job)
        self._wake()

    def _take_claim(self, key: Key) -> None:
        """Put the pod in anew whose claim for extended resources has come or gone."""
        claim, devices = self.informers.resource_claims.get(key), self.snapshot.devices
        if claim is not None and owner_of(claim) is not None and claim.metadata.controller:
            self._take_pod_anew(Key(key.namespace, claim.metadata.controller.name))
        elif claim is None:
            for name in list(devices.choices.users.get(str(key), ())):
                namespace, _, pod = name.partition("/")
                self._take_pod_anew(Key(namespace, pod))

    def _take_pod_anew(self, key: Key) -> None:
        """Take a pod in the handler of another object: what is assumed of the pod is remembered."""
        self._remember(key)
        self._take_pod(key)

    def _goes_as_decided(self, old: Task, pod: Pod) -> bool:
        """Whether a pod was bound or started as planned and did not change otherwise.

        Most updates of pods are of this kind, and they need no new decision.
        """
        node, before = pod.spec.node_name, old.pod
        return (
            old.status in _ARRIVING
            and status_of(pod) in _ARRIVED
            and old.elastic is None  # a target may have been lowered below its index meanwhile
            and self.snapshot.nodes.find(node) == old.node
            and before.metadata.annotations == pod.metadata.annotations
            and before.metadata.labels == pod.metadata.labels
            and msgspec.structs.replace(before.spec, node_name=node) == pod.spec
        )

    def _remove_pod(self, task: Task) -> None:
        job = task.job
        self.snapshot.remove_pod(task.key)
        if job is not None and _is_virtual(job):
            self.snapshot.remove_group(job.key)
            self.n_groups_gone += 1
        else:
            self.mark_dirty(job)
        self._wake()

    def _keep(self, old: Task, task: Task, on_node: str) -> None:
        """Carry over what was assumed about this pod: see the module's docstring.

        The node is given by its name: its place may be another since the old task was removed.
        """
        task.marked_for_deletion = old.marked_for_deletion
        status, node = task.status, task.node
        if status in _FINISHED:
            return
        if node == NOWHERE and on_node:
            place = self.snapshot.nodes.place(on_node, is_temporary=True)
            if old.status is not TaskStatus.PIPELINED:
                # Assumed bound, and this state is older than our binding: the room stays taken.
                node = place
                status = old.status if status is TaskStatus.PENDING else status
            elif status is TaskStatus.PENDING:
                # Nominated: the room stays reserved until the victims are gone.
                node, status = place, old.status
        if task.marked_for_deletion and status in _PRESENT:
            status = TaskStatus.RELEASING
        if (status, node) != (task.status, task.node):
            self.snapshot.move(task, status, node)

    def _virtual_group(self, pod: Pod) -> str:
        """Returns the name of the virtual group of a pod without a group, or an empty name."""
        if not is_ungrouped(pod, self.snapshot.scheduler_names):
            return ""
        meta, name = pod.metadata, virtual_group_name(pod)
        job = self.snapshot.jobs.get(f"{meta.namespace}/{name}")
        if job is None or job.group.metadata.uid != meta.uid:
            self.snapshot.put_group(virtual_group(pod, self._default_queue))
        return name

    def _with_queue(self, group: PodGroup) -> PodGroup:
        if group.spec.queue:
            return group
        spec = msgspec.structs.replace(group.spec, queue=self._default_queue)
        return msgspec.structs.replace(group, spec=spec)


def is_virtual(job: JobInfo) -> bool:
    """Whether the job is one pod without a group: there is no group to write a status to."""
    return job.group.metadata.name.startswith(VIRTUAL_PREFIX)


def has_status(job: JobInfo) -> bool:
    """Whether there is a group to write a status to, and it is ours to write."""
    is_missing = job.native is not None and job.native.object is None
    return job.is_served and not is_missing and not is_virtual(job)


def _native_facts(group: NativeGroup | None) -> tuple[object, ...]:
    return () if group is None else (group.spec, group.metadata.annotations)


def _is_virtual(job: JobInfo | None) -> bool:
    return job is not None and is_virtual(job)
