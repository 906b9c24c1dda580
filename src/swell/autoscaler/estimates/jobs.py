"""When waiting jobs will start, for jobs as the autoscaler sees them; and what of it is written.

An estimate is never one number: it has the tenth, the fiftieth and the ninetieth percentile of the
start, or says that it is unknown and which job that hangs on. It is written only when it has moved
by more than a fifth of the wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from swell.api.aitrainingjob import StartEstimate
from swell.api.times import format_time, parse_time
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.estimates.remaining import (
    SCENARIOS,
    Floats,
    RemainingSource,
    RunningFacts,
    remaining,
    shuffled,
)
from swell.autoscaler.estimates.rolling import RollingProblem, roll
from swell.autoscaler.job_state import JobState
from swell.autoscaler.views import JobId

# An estimate is written anew when a percentile has moved by more than this share of the wait.
MOVED = 0.2
# Waiting jobs beyond this many get none: they are far from starting.
WAITING_MAX = 1000
# The spread is widened by this factor, for what no scenario knows of: jobs that come later and fit
# in before this one, and nodes of which none has enough. Without it only half of the starts on the
# public traces lay within a spread that should have had eight in ten.
_UNSEEN = 1.7
# Moves below this are no news to anybody.
_MOVED_S_MIN = 30.0


@dataclass(frozen=True, slots=True)
class StartSpread:
    """Seconds until a start at three percentiles; None where it is unknown, and the job why."""

    p10_s: float | None
    p50_s: float | None
    p90_s: float | None
    depends_on: str = ""

    def body(self, now: float) -> StartEstimate:
        """Returns the estimate as it stands in a job's status."""

        def moment(seconds: float | None) -> str | None:
            return None if seconds is None else format_time(now + seconds)

        return StartEstimate(
            estimated_at=format_time(now),
            p10=moment(self.p10_s),
            p50=moment(self.p50_s),
            p90=moment(self.p90_s),
            depends_on=self.depends_on,
        )


def spread_of(starts: Floats, depends_on: str) -> StartSpread:
    """Returns the percentiles of the starts in all scenarios."""
    ordered = np.sort(starts)
    last = len(ordered) - 1
    p10, p50, p90 = (ordered[round(share * last)] for share in (0.1, 0.5, 0.9))
    p10, p90 = p10 / _UNSEEN, p90 * _UNSEEN
    p10_s, p50_s, p90_s = (float(one) if np.isfinite(one) else None for one in (p10, p50, p90))
    return StartSpread(p10_s, p50_s, p90_s, depends_on if p90_s is None else "")


def start_spreads(
    snapshot: AutoscalerSnapshot,
    order: Sequence[JobId],
    earlier_runs_s: Mapping[str, Sequence[float]],
    now: float,
) -> dict[JobId, StartSpread]:
    """Returns the estimates of waiting jobs; `order` is that in which the scheduler tries them.

    Running elastic jobs count with their minimums alone: the autoscaler shrinks them for a job that
    waits. `earlier_runs_s` has the running times of ended jobs by program.
    """
    by_id = {job.view.id: job for job in snapshot.jobs}
    waiting = [by_id[one] for one in order if one in by_id][:WAITING_MAX]
    running = [job for job in snapshot.jobs if job.view.is_running and not job.is_pending]
    if not waiting:
        return {}
    idle = snapshot.cluster.idle
    resources = sorted(idle)
    held = _table(running, resources)
    gangs = _table(waiting, resources)
    surplus = _table(running, resources, of_target=True) - held
    free = np.array([idle[name].sum() for name in resources], np.int64) + surplus.sum(axis=0)
    known = [remaining(_facts(job, earlier_runs_s, now)) for job in running]
    ends = _scenarios([one for _, one in known], running)
    fresh = [_fresh(job, earlier_runs_s) for job in waiting]
    starts = roll(RollingProblem(free, held, ends, gangs, _scenarios(fresh, waiting)))
    blocking = _blocking(running, [source for source, _ in known], held)
    return {job.view.id: spread_of(starts[at], blocking) for at, job in enumerate(waiting)}


def has_moved(held: StartEstimate | None, found: StartEstimate, now: float) -> bool:
    """Whether an estimate differs from the written one by more than a fifth of the wait."""
    if held is None:
        return True
    for before, after in ((held.p10, found.p10), (held.p50, found.p50), (held.p90, found.p90)):
        if (before is None) != (after is None):
            return True
        if before is None or after is None:
            continue
        try:
            old, new = parse_time(before), parse_time(after)
        except ValueError:
            return True
        if abs(new - old) > max(MOVED * max(old - now, 0.0), _MOVED_S_MIN):
            return True
    return False


def _facts(
    job: JobState, earlier_runs_s: Mapping[str, Sequence[float]], now: float
) -> RunningFacts:
    view = job.view
    age_s = max(now - view.running_since, 0.0) if view.running_since is not None else 0.0
    return RunningFacts(
        age_s,
        _reported_left_s(job),
        view.time_limit_s,
        earlier_runs_s.get(view.program, ()),
    )


def _reported_left_s(job: JobState) -> float | None:
    """Returns the time left by the job's own report, at the rate of its present size."""
    evidence = job.view.speed
    if evidence is None or evidence.left is None or len(job.roles) != 1:
        return None
    size = job.roles[0].view.target
    rate = dict(evidence.rates).get(size)
    return evidence.left / rate if rate else None


def _fresh(job: JobState, earlier_runs_s: Mapping[str, Sequence[float]]) -> Floats:
    """Returns how long a job that waits will run, once it has started."""
    facts = RunningFacts(0.0, None, job.view.time_limit_s, earlier_runs_s.get(job.view.program, ()))
    return remaining(facts)[1]


def _scenarios(quantiles: Sequence[Floats], jobs: Sequence[JobState]) -> Floats:
    if not quantiles:
        return np.zeros((0, SCENARIOS))
    return np.stack(
        [
            shuffled(one, crc32(str(job.view.id).encode()))
            for one, job in zip(quantiles, jobs, strict=True)
        ]
    )


def _table(
    jobs: Sequence[JobState], resources: Sequence[str], *, of_target: bool = False
) -> np.ndarray:
    """Returns what jobs hold with their minimums, or with their targets, by resource."""
    table = np.zeros((len(jobs), len(resources)), np.int64)
    for row, job in enumerate(jobs):
        for state in job.roles:
            role = state.view
            least = min(role.minimum, role.target) if role.is_auto else role.target
            n = role.target if of_target else least
            for column, name in enumerate(resources):
                table[row, column] += n * role.needs.requests.get(name, 0)
    return table


def _blocking(
    running: Sequence[JobState], sources: Sequence[RemainingSource], held: np.ndarray
) -> str:
    """Returns the job of unknown end that holds the most: unknown starts hang on it."""
    unknown = [at for at, source in enumerate(sources) if source is RemainingSource.UNKNOWN]
    if not unknown:
        return ""
    most = held.max(axis=0, initial=1).astype(np.float64)
    most[most == 0] = 1.0
    largest = max(unknown, key=lambda at: (float((held[at] / most).max()), running[at].view.id))
    id_ = running[largest].view.id
    return f"{id_.namespace}/{id_.name}"
