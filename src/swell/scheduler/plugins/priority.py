"""priority: the important first, and only the strictly less important gives way."""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import Unit
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session

ARGUMENTS: tuple[str, ...] = ()


def open_priority(session: Session, option: PluginOption) -> Hooks:
    del session, option
    return Hooks(
        task_key=lambda task: -task.priority,
        job_key=lambda job: -job.priority,
        starving=lambda job: job.counts.ready + job.counts.waiting < len(job.tasks),
        preemptable=_less_important,
        preemptable_job=_may_give_way,
    )


def _may_give_way(claimer: Task, job: Job) -> bool:
    return claimer.job is job or (claimer.job is not None and job.priority < claimer.job.priority)


def _less_important(claimer: Task, units: Sequence[Unit]) -> list[Unit]:
    """Other jobs of lower priority; in the same job, tasks of lower priority."""
    return [
        unit
        for unit in units
        if (
            all(task.priority < claimer.priority for task in unit.tasks)
            if unit.job is claimer.job
            else _may_give_way(claimer, unit.job)
        )
    ]
