"""The plugin drf (dominant resource fairness): the smallest dominant share comes first.

The dominant share of a job is its largest share of any resource of the cluster. With hierarchy,
queues are compared as well, along a weighted tree (`share_tree`).
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Shares, Vector
from swell.scheduler.model.tasks import Task
from swell.scheduler.plugins.share_tree import ShareTree
from swell.scheduler.session import Session

_SAME = 1e-6  # shares that differ by less count as equal, as in Volcano


def open_drf(session: Session, option: PluginOption) -> Hooks:
    whole = Shares(session.total)

    def share(job: JobInfo) -> float:
        return whole.dominant(job.allocated)

    def preemptable(preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        if preemptor.job is None:
            return []
        mine = whole.dominant(preemptor.job.allocated + preemptor.request)
        left: dict[str, Vector] = {}
        granted: list[EvictionUnit] = []
        for unit in victims:
            # Cumulative: each unit is judged as if all before it were gone, granted or not.
            after = left.get(unit.job.key, unit.job.allocated) - unit.request
            left[unit.job.key] = after
            if mine - whole.dominant(after) <= _SAME:
                granted.append(unit)
        return granted

    if not option.is_on("enableHierarchy"):
        return Hooks(job_key=share, preemptable=preemptable)
    tree = ShareTree(session)
    return Hooks(
        job_key=share,
        preemptable=preemptable,
        queue_key=tree.key,
        queue_keys_may_fall=True,
        reclaimable=tree.reclaimable,
    )
