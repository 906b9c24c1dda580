"""The plugin priority serves higher priority first, and allows only lower ones as victims.

With the gang plugin in the same tier, a job starves only below its minimum; with this plugin alone
it starves while any of its tasks is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session


def open_priority(session: Session, option: PluginOption) -> Hooks:
    del session, option
    return Hooks(
        task_key=lambda task: -task.priority,
        job_key=lambda job: -job.priority,
        # Any missing replica, also beyond the minimum.
        starving=lambda job: job.counts.ready + job.counts.waiting < len(job.tasks),
        sub_group_key=lambda part: -part.priority,
        preemptable=_less_important,
        preemptable_job=_may_give_way,
    )


def _may_give_way(preemptor: Task, job: JobInfo) -> bool:
    """Whether the job has lower priority than the preemptor's, or is the same job."""
    return preemptor.job is job or (
        preemptor.job is not None and job.priority < preemptor.job.priority
    )


def _less_important(preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
    """Returns the units of jobs of lower priority; in the same job, of tasks of lower priority."""
    return [
        unit
        for unit in victims
        if (
            all(task.priority < preemptor.priority for task in unit.tasks)
            if unit.job is preemptor.job
            else _may_give_way(preemptor, unit.job)
        )
    ]
