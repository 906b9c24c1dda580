"""Whether a status is written now. What people may as well learn later is written seldom.

A job of many pods changes its numbers all the time; each time to write them would cost more than
the pods themselves. So they wait, the longer the older the job is, unless half of it has finished
or the last pod it was to have is there.
Of a job that does not run yet people want to know more: there the wait grows slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.aitrainingjob import AITrainingJobPhase, AITrainingJobStatus
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob.status import difference, may_be_late, n_finished
from swell.operator.aitrainingjob.waiting import has_passed
from swell.operator.aitrainingjob.world import World
from swell.runtime.plan import PatchStatus, Step

PACE_S_MIN, PACE_S_MAX = 10.0, 3600.0
# How long to wait, as a multiple of the age at the last write.
WAITING_PACE, RUNNING_PACE = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class Report:
    """The write of a status, if there is one; `is_late` when it is put off until `again_at`."""

    steps: tuple[Step, ...] = ()
    is_late: bool = False
    again_at: float | None = None


def report(world: World, status: AITrainingJobStatus, now: float) -> Report:
    """Write what differs, now or later."""
    change = difference(world.job, status)
    if not change:
        return Report()
    old = world.job.status
    is_news = _is_much(old, status) or _is_complete(old, status)
    if may_be_late(change) and not is_news and old.last_reconcile_time:
        last = parse_time(old.last_reconcile_time)
        began = parse_time(old.start_time) if old.start_time else last
        factor = RUNNING_PACE if old.phase is AITrainingJobPhase.RUNNING else WAITING_PACE
        pace_s = min(PACE_S_MAX, max(PACE_S_MIN, factor * (last - began)))
        if not has_passed(last, pace_s, now):
            return Report(is_late=True, again_at=last + pace_s)
    if old.phase is AITrainingJobPhase.EMPTY:
        change.setdefault("restarts", status.restarts)  # a column, also when it is zero
    change["lastReconcileTime"] = format_time(now)
    meta, is_first = world.job.metadata, old == AITrainingJobStatus()
    version = meta.resource_version
    return Report((PatchStatus(AI_TRAINING_JOBS, meta.key, version, change, is_first),))


def _is_much(old: AITrainingJobStatus, new: AITrainingJobStatus) -> bool:
    n_more = abs(n_finished(new) - n_finished(old))
    return n_more > 0 and 2 * n_more >= sum(new.target_replicas.values())


def _is_complete(old: AITrainingJobStatus, new: AITrainingJobStatus) -> bool:
    """Whether a job has just become as large as it is to be: what a resize was waiting for."""
    n_active, _, n_target = new.ready.partition("/")
    return n_active == n_target and new.ready != old.ready
