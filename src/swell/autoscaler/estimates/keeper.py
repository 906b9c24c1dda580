"""Keeps the estimates of starts up to date: when they are made anew, and which of them are written.

They are made by the autoscaler, beside its passes and never in the scheduler, at most every half
minute. One that has hardly moved is not written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.meta import Uid
from swell.api.times import parse_time
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.estimates.jobs import StartSpread, has_moved, start_spreads
from swell.autoscaler.job_views import AnyJob, program_of
from swell.autoscaler.status import EstimateProposal
from swell.autoscaler.views import JobId, JobKind

# The least time between two estimates of all jobs.
PERIOD_S = 30.0
# Running times kept of one program, and programs kept.
_RUNS_MAX, _PROGRAMS_MAX = 50, 4096


class EstimateKeeper:
    """Estimates that are to be written, and the running times of ended jobs."""

    def __init__(self, priority_of: Callable[[str], int]) -> None:
        self.proposals: dict[JobId, EstimateProposal] = {}
        self._priority_of = priority_of
        self._runs: dict[str, deque[tuple[Uid, float]]] = {}
        self._next_s = 0.0

    def note_run(self, job: AITrainingJob | None) -> None:
        """Learn how long a job ran that has succeeded; once for each."""
        if job is None or job.status.phase is not AITrainingJobPhase.SUCCEED:
            return
        status = job.status
        if not status.start_running_time or not status.end_time:
            return
        try:
            ran_s = parse_time(status.end_time) - parse_time(status.start_running_time)
        except ValueError:
            return
        runs = self._runs.setdefault(program_of(job), deque(maxlen=_RUNS_MAX))
        if ran_s >= 0 and all(uid != job.metadata.uid for uid, _ in runs):
            runs.append((job.metadata.uid, ran_s))
        while len(self._runs) > _PROGRAMS_MAX:
            del self._runs[next(iter(self._runs))]

    def propose(
        self, snapshot: AutoscalerSnapshot, get: Callable[[JobId], AnyJob | None], now: float
    ) -> None:
        """Make estimates, if it is time, and note those that have moved."""
        # A clock that was set back must not stop estimates for as long.
        if self._next_s - PERIOD_S <= now < self._next_s:
            return
        self._next_s = now + PERIOD_S
        self.proposals.clear()
        found = self.estimate(snapshot, now)
        for state in snapshot.jobs:
            id_ = state.view.id
            job = get(id_)
            if not isinstance(job, AITrainingJob):
                continue
            held, spread = job.status.start_estimate, found.get(id_)
            if spread is None:
                if held is not None:
                    self.proposals[id_] = EstimateProposal(job.metadata.resource_version, None)
                continue
            if held is None and spread.p90_s is not None and spread.p90_s < PERIOD_S:
                continue  # it is about to start, and the estimate would be written to be taken out
            estimate = spread.body(now)
            if has_moved(held, estimate, now):
                self.proposals[id_] = EstimateProposal(job.metadata.resource_version, estimate)

    def estimate(self, snapshot: AutoscalerSnapshot, now: float) -> dict[JobId, StartSpread]:
        """Returns the estimates of all waiting jobs, in the order in which they are tried."""
        pending = [
            job.view
            for job in snapshot.jobs
            if job.is_pending and job.view.id.kind is JobKind.AI_TRAINING_JOB
        ]
        pending.sort(key=lambda view: (-self._priority_of(view.priority), view.created, view.id))
        earlier: Mapping[str, list[float]] = {
            program: [seconds for _, seconds in runs] for program, runs in self._runs.items()
        }
        return start_spreads(snapshot, [view.id for view in pending], earlier, now)

    def take(self, id_: JobId, job: AnyJob) -> EstimateProposal | None:
        """Returns the estimate to write on this version of a job; others are void."""
        proposal = self.proposals.get(id_)
        if proposal is None or proposal.version == job.metadata.resource_version:
            return proposal
        del self.proposals[id_]
        return None
