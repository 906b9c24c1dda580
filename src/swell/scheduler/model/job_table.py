"""All jobs and queues, and which task and job is in which: every sum over them is kept in step.

A task joins the job of the group that its pod names, a job the queue that its group names. Either
may come before the other, in which case the tasks wait, and the job is in no queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from swell.api.meta import Key
from swell.api.native_groups import NativeGroup
from swell.api.scheduling import PodGroup, PodGroupPhase
from swell.scheduler.model.annotated_gangs import regroup
from swell.scheduler.model.empty_nodes import EmptyNodes
from swell.scheduler.model.job_sums import count_in_job, shift_in_job
from swell.scheduler.model.jobs import JobInfo, read_job
from swell.scheduler.model.label_domains import LabelDomains
from swell.scheduler.model.membership import Membership
from swell.scheduler.model.native_groups import (
    NativeTerms,
    derive,
    native_group_of,
    native_job_name,
    translated,
)
from swell.scheduler.model.pod_notes import NotesReader
from swell.scheduler.model.priorities import Priorities
from swell.scheduler.model.queues import QueueInfo, link_queues
from swell.scheduler.model.resources import Dimensions
from swell.scheduler.model.tasks import Task, TaskStatus

# Tasks with which a gang counts as started, in whole or in part.
_PLACED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)


class JobTable:
    """Jobs and queues by name. Used by the snapshot alone; others read `jobs` and `queues`."""

    def __init__(
        self,
        dimensions: Dimensions,
        scheduler_names: frozenset[str],
        default_queue: str,
        label_domains: LabelDomains,
        empty_nodes: EmptyNodes,
    ) -> None:
        self.jobs: dict[str, JobInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.priorities = Priorities()
        self.notes = NotesReader()
        self.membership = Membership(self.jobs, scheduler_names)
        self._dimensions = dimensions
        self._default_queue = default_queue  # of native groups that name none
        self._label_domains = label_domains
        self._empty_nodes = empty_nodes
        # Jobs that may have pending work, and jobs whose sums for admission are out of date.
        self._active: dict[str, JobInfo] = {}
        self._unsettled: dict[str, JobInfo] = {}
        # Queues that native groups have left: only the snapshot knows how many each has.
        self.queues_left: set[str] = set()

    # --- queues and jobs

    def put_queue(self, entry: QueueInfo) -> None:
        """Adds or replaces a queue, which adopts the jobs that named it before it existed."""
        old = self.queues.get(entry.name)
        self.queues[entry.name] = entry
        jobs = (
            old.jobs if old else {k: j for k, j in self.jobs.items() if j.queue_name == entry.name}
        )
        for job in jobs.values():
            job.settle(leaving=True)
            job.queue = None
            self._join_queue(job)
        link_queues(self.queues.values())

    def remove_queue(self, name: str) -> None:
        entry = self.queues.pop(name, None)
        if entry is not None:
            for job in entry.jobs.values():
                job.queue = None
            link_queues(self.queues.values())

    def read(self, group: PodGroup, unreadable: str) -> JobInfo:
        """Returns the job of a group, which is not in the table yet."""
        priority = self.priorities.of_group(group)
        return read_job(group, priority, self._dimensions, unreadable)

    def put(self, job: JobInfo) -> None:
        """Adds or replaces a job; it gets the tasks of the old one and those that waited for it."""
        self._put(job)
        self._regroup(job.key)

    def put_native(self, key: Key, group: NativeGroup | None, unreadable: str = "") -> None:
        """Adds or replaces the job of a native group; None stands for one that does not exist."""
        job = self.read(translated(key, group, self._default_queue), unreadable)
        job.native = NativeTerms(key, group)
        old = self.jobs.get(job.key)
        if old is not None and old.native is not None:
            job.native.foreign = old.native.foreign
        self._put(job)
        if job.native.topology_key:
            self._label_domains.jobs.add(job.key)
        else:
            self._label_domains.jobs.discard(job.key)

    def remove_native(self, key: Key) -> None:
        """Makes the pods of a native group wait for one of the same name."""
        self.put_native(key, None)
        self._drop_if_unused(self.jobs[f"{key.namespace}/{native_job_name(key.name)}"])

    def remove(self, key: str) -> None:
        """Removes a job. Its tasks stay and take room; they rejoin a group of the same name."""
        job = self.jobs.pop(key, None)
        if job is None:
            return
        self._leave_queue(job)
        self._active.pop(key, None)
        self._label_domains.jobs.discard(key)
        self._empty_nodes.forget(key)
        for task in job.tasks.values():
            task.job = task.sub_group = None
            self.membership.wait(task)
        self._regroup(key)

    def reprioritise(self) -> None:
        """Gives every job its priority anew: priority classes have changed."""
        for job in self.jobs.values():
            if job.native is not None:
                job.native.is_stale = True
                self.touch(job)
            else:
                job.priority = self.priorities.of_group(job.group)

    def widen(self, width: int) -> None:
        holders: list[JobInfo | QueueInfo] = [*self.jobs.values(), *self.queues.values()]
        for holder in holders:
            holder.widen(width)

    # --- the job of a task

    def join(self, task: Task) -> None:
        """Adds a task to the group that it is noted to belong to."""
        key, native = task.group_key, native_group_of(task.pod)
        job = self.jobs.get(key)
        if job is None and key and native:
            # Its pods wait for the group; they are no gangs of one.
            self.put_native(Key(task.pod.metadata.namespace, native), None)
            job = self.jobs[key]
        if job is None:
            if key:
                self.membership.wait(task)
        elif job.native is not None and task.is_foreign and task.status is TaskStatus.PENDING:
            job.native.foreign[task.key] = task.pod.spec.scheduler_name
            job.native.is_stale = True
            self.touch(job)
        else:
            self._enlist(task, job)

    def leave(self, task: Task) -> None:
        """Takes a task out of its group."""
        job = task.job or self.jobs.get(task.group_key)
        self.membership.forget(task)
        if job is None:
            return
        if task.job is not None:
            count_in_job(task, job, -1)
            del job.tasks[task.key]
            job.n_annotated -= task.podset_request is not None
            if job.sub_groups is not None:
                job.sub_groups.leave(task)
            task.job = task.sub_group = None
            if job.native is not None:
                job.native.n_own -= not task.is_foreign
        self.touch(job)
        if job.native is not None:
            job.native.foreign.pop(task.key, None)
            job.native.is_stale = True
            self._drop_if_unused(job)

    def count_twins(self, tasks: Sequence[Task]) -> None:
        """Counts tasks that were added beside the first one, which is counted, and equal to it."""
        if len(tasks) > 1 and tasks[0].job is not None:
            count_in_job(tasks[0], tasks[0].job, len(tasks) - 1)

    def shift(self, task: Task, old: TaskStatus, new: TaskStatus, n: int) -> None:
        """Counts a change of status of n tasks like this one."""
        if task.job is not None and old is not new:
            shift_in_job(task, task.job, old, new, n)
            self.touch(task.job)

    # --- what is to be decided

    def touch(self, job: JobInfo) -> None:
        """Notes that something about the job has changed."""
        self._unsettled[job.key] = job
        self._active[job.key] = job

    def active(self) -> list[JobInfo]:
        """Returns the jobs of existing queues that have pending work, sorted by name."""
        # Idle jobs are dropped here and not when they become idle, which costs nothing per move.
        for key in [key for key, job in self._active.items() if job.is_idle]:
            del self._active[key]
        return [self._active[key] for key in sorted(self._active) if self._active[key].queue]

    def settle(self) -> None:
        """Brings the sums for admission up to date, at the beginning of a session."""
        for job in list(self._unsettled.values()):
            if job.native is not None:
                self._derive(job, job.native)
            if (job.n_annotated or job.is_annotated) and job.takes_annotations:
                regroup(job)
            job.settle()
        self._unsettled.clear()

    # --- inside

    def _put(self, job: JobInfo) -> None:
        old = self.jobs.pop(job.key, None)
        tasks = list(old.tasks.values()) if old else []
        if old is not None:
            self._leave_queue(old)
        self.jobs[job.key] = job
        self._join_queue(job)
        tasks += self.membership.take_waiting(job.key)
        for task in tasks:
            self._enlist(task, job)
        self.touch(job)

    def _regroup(self, key: str) -> None:
        """Moves pods that name two groups, because the one of Volcano has come or gone."""
        for task in self.membership.misplaced(key):
            self.leave(task)
            self.membership.note(task, self.notes.read(task.pod.metadata.annotations).group)
            self.join(task)

    def _drop_if_unused(self, job: JobInfo) -> None:
        """Removes a job that only stands for a group that does not exist, with its last pod."""
        terms = job.native
        if terms is not None and terms.object is None and not (job.tasks or terms.foreign):
            self.remove(job.key)

    def _derive(self, job: JobInfo, terms: NativeTerms) -> None:
        """Gives the job of a native group the terms that its pods have now."""
        if job.phase is PodGroupPhase.EMPTY and job.counts.of(_PLACED):
            # Its phase is kept in memory only: after a restart it follows from its pods.
            is_whole = job.counts.of(_PLACED) >= job.min_member
            job.phase = PodGroupPhase.RUNNING if is_whole else PodGroupPhase.INQUEUE
        if not terms.is_stale:
            return
        terms.is_stale = False
        found = derive(terms, job.tasks.values(), job.min_member, self._default_queue)
        job.barred, terms.never_claims = found.refusal, found.never_claims
        job.priority = self.priorities.of_native(job.group, terms, found.lowest_priority)
        job.settle(leaving=True)  # it has reserved for the old minimum
        job.min_resources = found.min_resources
        if found.queue != job.queue_name or job.queue is None:
            self._leave_queue(job)
            job.group = replace(job.group, spec=replace(job.group.spec, queue=found.queue))
            self._join_queue(job)

    def _enlist(self, task: Task, job: JobInfo) -> None:
        task.job = job
        if job.native is not None:
            job.native.is_stale = True
            job.native.n_own += not task.is_foreign
            # A pod of another scheduler is not ours to evict.
            task.preemptable = task.preemptable and not task.is_foreign
        job.tasks[task.key] = task
        job.n_annotated += task.podset_request is not None
        task.sub_group = None
        # Annotations are read when a session begins: they depend on all pods of the gang.
        if job.sub_groups is not None and not job.is_annotated:
            task.sub_group = job.sub_groups.join(task)
        self.touch(job)
        count_in_job(task, job, 1)

    def _join_queue(self, job: JobInfo) -> None:
        queue = self.queues.get(job.queue_name)
        if queue is None:
            return
        job.queue = queue
        queue.jobs[job.key] = job
        queue.charge(job.allocated)
        queue.pending += job.pending
        self.touch(job)

    def _leave_queue(self, job: JobInfo) -> None:
        queue = job.queue
        self._unsettled.pop(job.key, None)
        if queue is None:
            return
        job.settle(leaving=True)
        queue.charge(-job.allocated)
        queue.pending -= job.pending
        del queue.jobs[job.key]
        job.queue = None
        if job.native is not None:
            self.queues_left.add(queue.name)
