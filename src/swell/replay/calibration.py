"""How good estimates of starts are: made when a replayed job begins to wait, and compared later.

The same arithmetic as the autoscaler's (`autoscaler.estimates`) is asked in a replay of rigid jobs,
where jobs do wait. It knows of a running job what its program reports, and of one that waits how
long earlier jobs of its program ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from swell.autoscaler.estimates.jobs import StartSpread, spread_of
from swell.autoscaler.estimates.remaining import SCENARIOS, RunningFacts, remaining, shuffled
from swell.autoscaler.estimates.rolling import RollingProblem, roll
from swell.replay.physics import JobRun
from swell.replay.sizers import ReplayCluster

# Shorter waits are the time of a round and not of a queue.
WAIT_S_MIN = 60.0


@dataclass(frozen=True, slots=True)
class CalibrationFigures:
    """The share of starts within the spread, and the median error of p50 by the wait itself."""

    n_waits: int
    n_unknown: int
    within: float
    median_error: float


@dataclass(slots=True)
class Calibration:
    """Observes a replay: the first estimate of each job that waits, and its start in the end."""

    cluster: ReplayCluster
    estimates: dict[str, tuple[float, StartSpread]] = field(default_factory=dict)
    _earlier: dict[str, list[float]] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def observe(self, jobs: Sequence[JobRun], active: Sequence[JobRun], now: float) -> None:
        """Estimate the starts of jobs that begin to wait."""
        for job in jobs:
            if job.ended_s is not None and job.name not in self._ended:
                self._ended.add(job.name)
                ran_s = job.ended_s - (job.started_s or 0.0)
                self._earlier.setdefault(job.program.name, []).append(ran_s)
        waiting = sorted(
            (job for job in active if not job.size), key=lambda job: (job.submitted_s, job.name)
        )
        if all(job.name in self.estimates for job in waiting):
            return
        starts = self._starts([job for job in active if job.size], waiting, now)
        for row, job in enumerate(waiting):
            if job.name not in self.estimates:
                self.estimates[job.name] = (now, spread_of(starts[row], ""))

    def _starts(
        self, running: Sequence[JobRun], waiting: Sequence[JobRun], now: float
    ) -> np.ndarray:
        capacity = self.cluster.capacity
        held = np.array([[job.size] for job in running], np.int64).reshape(-1, 1)
        ends = [remaining(self._facts(job, now))[1] for job in running]
        fresh = [remaining(RunningFacts(0.0, earlier_runs_s=self._runs(job)))[1] for job in waiting]
        return roll(
            RollingProblem(
                free=np.array([capacity - int(held.sum())], np.int64),
                held=held,
                ends=_table(ends, running),
                waiting=np.array([[min(job.requested, capacity)] for job in waiting], np.int64),
                durations=_table(fresh, waiting),
            )
        )

    def _facts(self, job: JobRun, now: float) -> RunningFacts:
        return RunningFacts(now - (job.started_s or now), job.left_s(), None, self._runs(job))

    def _runs(self, job: JobRun) -> Sequence[float]:
        return self._earlier.get(job.program.name, ())

    def figures(self, jobs: Sequence[JobRun]) -> CalibrationFigures:
        """Returns how the estimates compare with the starts of a replay that has ended."""
        within, errors, n_unknown = [], [], 0
        for job in jobs:
            if job.name not in self.estimates or job.started_s is None:
                continue
            at, spread = self.estimates[job.name]
            wait_s = job.started_s - at
            if wait_s <= WAIT_S_MIN:
                continue
            if spread.p10_s is None or spread.p50_s is None:
                n_unknown += 1
                continue
            most_s = np.inf if spread.p90_s is None else spread.p90_s
            # Jobs start with a round, so that one round decides nothing.
            within.append(spread.p10_s - WAIT_S_MIN <= wait_s <= most_s + WAIT_S_MIN)
            errors.append(abs(spread.p50_s - wait_s) / wait_s)
        return CalibrationFigures(
            len(within) + n_unknown,
            n_unknown,
            float(np.mean(within)) if within else 0.0,
            float(np.median(errors)) if errors else 0.0,
        )


def _table(rows: Sequence[np.ndarray], jobs: Sequence[JobRun]) -> np.ndarray:
    if not rows:
        return np.zeros((0, SCENARIOS))
    return np.stack(
        [shuffled(one, crc32(job.name.encode())) for one, job in zip(rows, jobs, strict=True)]
    )
