"""Keeps the snapshot up to date with the informers and with assumed writes not confirmed yet.

A change costs as much as it changes. A pod is what the API server reports, with three exceptions,
all for the same pod by UID: it never loses a node again, it keeps a node nominated for it, and once
its eviction is decided it counts as leaving. Nothing is decided or written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.resource import ApiObject
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue
from swell.runtime.cache import StaleListError
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError
from swell.runtime.informer import Informer
from swell.scheduler.live.dirty import GATHERING_S, DirtyMarks
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.elastic import trainers_key
from swell.scheduler.model.jobs import JobInfo
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


class SchedulerCache:
    """The snapshot of the scheduler. Every change that may need a decision sets a dirty mark.

    `assume` is done by the cycle itself, which moves tasks in the snapshot; `forget` undoes it.
    """

    def __init__(
        self, informers: SchedulerInformers, settings: SchedulerSettings, dirty: DirtyMarks
    ) -> None:
        self.informers = informers
        self.snapshot = SchedulerSnapshot(settings.scheduler_names)
        # Jobs that may have changed since `take_dirty_jobs`, in the order of their changes.
        self._dirty_jobs: dict[str, None] = {}
        # Targets that are being lowered and are not confirmed yet, with the UID of the job.
        self._lowered: dict[str, tuple[Uid, dict[str, int]]] = {}
        # What was last taken of each job, so that other changes of its status cost nothing.
        self._job_facts: dict[str, tuple[object, ...]] = {}
        self._default_queue = settings.default_queue
        self._dirty = dirty
        self._wake = dirty.mark
        self.is_filled = False
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
        seen, snapshot = self.informers, self.snapshot
        seen.namespaces.add_handler(self._take_namespace)
        self._mirror(seen.priorities, snapshot.put_priority_class, snapshot.remove_priority_class)
        self._mirror(seen.budgets, snapshot.put_budget, snapshot.remove_budget)
        self._mirror(seen.claims, snapshot.put_claim, snapshot.remove_claim)
        self._mirror(
            seen.storage_classes, snapshot.put_storage_class, snapshot.remove_storage_class
        )
        seen.nodes.add_handler(self._take_node)
        seen.queues.add_handler(self._take_queue)
        seen.groups.add_handler(self._take_group)
        seen.jobs.add_handler(self._take_training_job)
        seen.trainer_jobs.add_handler(self._take_trainers)
        # Last: a pod looks up its node, its group and its job.
        seen.pods.add_handler(self._take_pod)
        self.is_filled = True

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
        node = self.snapshot.nodes.place(pod.spec.node_name) if pod.spec.node_name else NOWHERE
        status = status_of(pod)
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

    def assume_shrunk(self, job: AITrainingJob, targets: dict[str, int]) -> None:
        """Keep the lower targets of a job, whatever the informer says, until `forget_shrunk`."""
        self._lowered[str(job.metadata.key)] = (job.metadata.uid, targets)

    def forget_shrunk(self, key: Key) -> None:
        """Go back to the targets in the status of a job: they are written, or will not be."""
        if self._lowered.pop(str(key), None) is not None:
            self._job_facts.pop(str(key), None)
            self._take_training_job(key)

    # --- handlers of the informers

    def _mirror(
        self, informer: Informer[T], put: Callable[[T], None], remove: Callable[[str], None]
    ) -> None:
        def take(key: Key) -> None:
            found = informer.get(key)
            if found is None:
                remove(str(key))
            else:
                put(found)
            self._wake()

        informer.add_handler(take)

    def _take_namespace(self, key: Key) -> None:
        found = self.informers.namespaces.get(key)
        if found is None:
            self.snapshot.remove_namespace(key.name)
        else:
            self.snapshot.put_namespace(key.name, found.metadata.labels)

    def _take_node(self, key: Key) -> None:
        nodes, found = self.snapshot.nodes, self.informers.nodes.get(key)
        version = nodes.version
        if found is None:
            self.snapshot.remove_node(key.name)
        else:
            self.snapshot.put_node(found)
        if nodes.version != version:  # not only a heartbeat
            self._wake()

    def _take_queue(self, key: Key) -> None:
        found = self.informers.queues.get(key)
        entry = self.snapshot.queues.get(key.name)
        if found is None:
            # Its jobs cannot run without a queue, and their reason has to be written.
            for job in entry.jobs.values() if entry else ():
                self._dirty_jobs[job.key] = None
            self.snapshot.remove_queue(key.name)
        elif entry is not None and _queue_facts(entry.object) == _queue_facts(found):
            entry.object = found  # only the counts in its status have changed
            return
        else:
            self.snapshot.put_queue(found)
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
        same = known if known and known.group.metadata.uid == found.metadata.uid else None
        if same is not None and _group_facts(same.group) == _group_facts(found):
            same.group = found
            if found.status.phase is not same.phase:
                self.mark_dirty(same)  # written by someone else, or older than our own write
            return
        # A group of another UID replaces the old one, which is gone without a delete event.
        self.n_groups_gone += known is not None and same is None
        self.snapshot.put_group(found)
        job = self.snapshot.jobs[str(key)]
        if same is not None and same.phase is not PodGroupPhase.EMPTY:
            # The scheduler owns the phase, and our last write may not have come back yet.
            self.snapshot.set_phase(job, same.phase)
        self._note_arrival(job)

    def _take_training_job(self, key: Key) -> None:
        found, text = self.informers.jobs.get(key), str(key)
        if found is None:
            self.snapshot.remove_training_job(text)
            self._lowered.pop(text, None)
            self._job_facts.pop(text, None)
        else:
            facts = _job_facts(found)
            if self._job_facts.get(text) == facts:
                return
            self._job_facts[text] = facts
            self.snapshot.put_training_job(self._with_targets(found))
        self._targets_changed(text)

    def _take_trainers(self, key: Key) -> None:
        found, text = self.informers.trainer_jobs.get(key), trainers_key(str(key))
        if found is None:
            self.snapshot.remove_training_job(text)
            self._job_facts.pop(text, None)
        else:
            facts = (found.spec.trainer, found.status.trainer_target)
            if self._job_facts.get(text) == facts:
                return
            self._job_facts[text] = facts
            self.snapshot.put_trainers(found)
        self._targets_changed(text)

    def _targets_changed(self, training_job: str) -> None:
        if any(self.snapshot.members(training_job)):  # a job without pods needs no decision
            self._wake()

    def _with_targets(self, job: AITrainingJob) -> AITrainingJob:
        """Returns the job with the smaller of both targets for each role that is being shrunk."""
        uid, lowered = self._lowered.get(str(job.metadata.key), ("", {}))
        if uid != job.metadata.uid or not lowered:
            return job
        targets = dict(job.status.target_replicas)
        for role, target in lowered.items():
            targets[role] = min(targets.get(role, target), target)
        status = msgspec.structs.replace(job.status, target_replicas=targets)
        return msgspec.structs.replace(job, status=status)

    def _take_pod(self, key: Key) -> None:
        pod, text = self.informers.pods.get(key), str(key)
        old = self.snapshot.task(text)
        # A pod of the same name and another UID is another pod: nothing assumed carries over.
        if old is not None and (pod is None or old.pod.metadata.uid != pod.metadata.uid):
            self._remove_pod(old)
            old = None
        if pod is None:
            return
        if old is not None and _pod_facts(old.pod) == _pod_facts(pod):
            old.pod = pod
            return
        if old is not None and self._goes_as_decided(old, pod):
            old.pod = pod
            self._advance(old, status_of(pod))
            return
        group_name = self._virtual_group(pod)
        # The pod has been given a group since: its virtual group goes.
        if old is not None and _is_virtual(old.job) and not group_name:
            self._remove_pod(old)
        task = self.snapshot.put_pod(pod, group_name)
        if old is not None:
            self._keep(old, task)
        if old is None and task.job is not None and task.status is TaskStatus.PENDING:
            self._note_arrival(task.job)
            return
        self.mark_dirty(task.job)
        self._wake()

    def _goes_as_decided(self, old: Task, pod: Pod) -> bool:
        """Whether a pod was bound or started as planned and did not change otherwise.

        Most updates of pods are of this kind, and they need no new decision.
        """
        node, before = pod.spec.node_name, old.pod
        return (
            old.status in _ARRIVING
            and status_of(pod) in _ARRIVED
            and old.elastic is None  # a target may have been lowered below its index meanwhile
            and self.snapshot.nodes.place(node) == old.node
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

    def _keep(self, old: Task, task: Task) -> None:
        """Carry over what was assumed about this pod: see the module's docstring."""
        task.marked_for_deletion = old.marked_for_deletion
        status, node = task.status, task.node
        if status in _FINISHED:
            return
        if node == NOWHERE and old.node != NOWHERE:
            if old.status is not TaskStatus.PIPELINED:
                # Assumed bound, and this state is older than our binding: the room stays taken.
                node = old.node
                status = old.status if status is TaskStatus.PENDING else status
            elif status is TaskStatus.PENDING:
                # Nominated: the room stays reserved until the victims are gone.
                node, status = old.node, old.status
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


def _is_virtual(job: JobInfo | None) -> bool:
    return job is not None and is_virtual(job)


def _pod_facts(pod: Pod) -> tuple[object, ...]:
    """Returns the parts of a pod that decisions depend on. The other parts change often."""
    meta, status = pod.metadata, pod.status
    return (
        status.phase,
        meta.deletion_timestamp is None,
        pod.spec,
        meta.labels,
        meta.annotations,
    )


def _group_facts(group: PodGroup) -> tuple[object, ...]:
    return group.spec, group.metadata.annotations


def _job_facts(job: AITrainingJob) -> tuple[object, ...]:
    status = job.status
    goes_on = status.ending is None and status.phase not in FINAL_PHASES
    return job.metadata.uid, job.spec.replica_specs, status.target_replicas, goes_on


def _queue_facts(queue: Queue) -> tuple[object, ...]:
    return queue.spec, queue.status.state, queue.metadata.annotations
