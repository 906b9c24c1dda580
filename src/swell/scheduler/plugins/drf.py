"""drf: dominant resource fairness: whoever has the smallest share of the scarcest is next.

With hierarchy, queues are leaves of a weighted tree given by annotations, and compared along it.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import Unit
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.resources import Shares, Vector
from swell.scheduler.model.tasks import Task
from swell.scheduler.plugins.drf_tree import ShareTree
from swell.scheduler.session import Session

ARGUMENTS: tuple[str, ...] = ()
_SAME = 1e-6


def open_drf(session: Session, option: PluginOption) -> Hooks:
    total = session.total
    whole = Shares(total)

    def share(job: Job) -> float:
        return whole.dominant(job.allocated)

    def preemptable(claimer: Task, units: Sequence[Unit]) -> list[Unit]:
        if claimer.job is None:
            return []
        mine = whole.dominant(claimer.job.allocated + claimer.request)
        left: dict[str, Vector] = {}
        granted: list[Unit] = []
        for unit in units:
            after = left.get(unit.job.key, unit.job.allocated) - unit.request
            left[unit.job.key] = after
            if mine - whole.dominant(after) <= _SAME:
                granted.append(unit)
        return granted

    if not option.is_on("enableHierarchy"):
        return Hooks(job_key=share, preemptable=preemptable)
    tree = ShareTree(session.snapshot.queues.values(), total)
    return Hooks(
        job_key=share,
        preemptable=preemptable,
        queue_key=tree.key,
        queue_keys_interact=True,
        reclaimable=tree.reclaimable,
    )
