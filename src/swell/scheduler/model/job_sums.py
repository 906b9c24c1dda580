"""Keeps the counts and amounts that tasks add to their job, role, sub-group and queue."""

from __future__ import annotations

from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Vector
from swell.scheduler.model.tasks import ASKED, HELD, Task, TaskStatus


def count_in_job(task: Task, job: JobInfo, n: int) -> None:
    """Counts n tasks like this one, or uncounts them if n is negative."""
    status, shape = task.status, task.shape
    job.counts.add(status, n, best_effort=shape.best_effort)
    job.role(task.role).add(status, n, best_effort=shape.best_effort)
    if task.sub_group is not None:
        task.sub_group.counts.add(status, n, best_effort=shape.best_effort)
    if task.is_foreign:
        return  # it counts towards the minimum, and its room is not charged to a queue
    if HELD[status]:
        _hold(job, n * shape.request)
    elif ASKED[status]:
        _ask(job, n * shape.request)


def shift_in_job(task: Task, job: JobInfo, old: TaskStatus, new: TaskStatus, n: int) -> None:
    """Counts a change of status of n tasks like this one."""
    shape = task.shape
    job.counts.shift(old, new, n, best_effort=shape.best_effort)
    job.role(task.role).shift(old, new, n, best_effort=shape.best_effort)
    if task.sub_group is not None:
        task.sub_group.counts.shift(old, new, n, best_effort=shape.best_effort)
    if task.is_foreign:
        return
    held, asked = HELD[new] - HELD[old], ASKED[new] - ASKED[old]
    if not (held or asked):
        return
    amount = n * shape.request
    if held:
        _hold(job, amount if held > 0 else -amount)
    if asked:
        _ask(job, amount if asked > 0 else -amount)


def _hold(job: JobInfo, amount: Vector) -> None:
    job.allocated += amount
    if job.queue is not None:
        job.queue.charge(amount)


def _ask(job: JobInfo, amount: Vector) -> None:
    job.pending += amount
    if job.queue is not None:
        job.queue.pending += amount
