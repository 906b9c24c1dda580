"""The figures of a replay: completion, queueing, use, resizes and fairness, as values and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from swell.replay.engine import ReplayLog


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """Times in seconds. Fairness is a job's time by its time on an equal part of the cluster.

    The part is one by the mean number of jobs that were there during the job's life; the job has to
    be started there as well.
    """

    policy: str
    n_jobs: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    mean_queueing_s: float
    makespan_s: float
    used_share: float
    resizes_per_job: float
    fairness_mean: float
    fairness_worst: float
    deadlines_kept: float | None  # the share of those that were given
    decision_ms: float | None  # CPU time of a round; not known where programs decide by themselves

    def body(self) -> dict[str, object]:
        """Returns the figures as JSON data, rounded to what they are worth."""
        return {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in asdict(self).items()
        }


def figures_of(log: ReplayLog, policy: str) -> ReplayFigures:
    """Returns the figures of a replay in which all jobs have ended."""
    ends = np.array([job.ended_s or 0.0 for job in log.jobs])
    begins = np.array([job.submitted_s for job in log.jobs])
    starts = np.array(
        [job.submitted_s if job.started_s is None else job.started_s for job in log.jobs]
    )
    times = ends - begins
    fairness = _fairness(log, begins, ends)
    makespan = float(ends.max() - begins.min())
    return ReplayFigures(
        policy=policy,
        n_jobs=len(times),
        mean_s=float(times.mean()),
        p50_s=float(np.percentile(times, 50)),
        p90_s=float(np.percentile(times, 90)),
        p99_s=float(np.percentile(times, 99)),
        mean_queueing_s=float((starts - begins).mean()),
        makespan_s=makespan,
        used_share=sum(job.gpu_s for job in log.jobs) / max(makespan * log.capacity, 1e-9),
        resizes_per_job=float(np.mean([job.n_resizes for job in log.jobs])),
        fairness_mean=float(fairness.mean()),
        fairness_worst=float(fairness.max()),
        deadlines_kept=_deadlines_kept(log),
        decision_ms=1e3 * float(np.median(log.decision_s)) if log.decision_s else None,
    )


def _deadlines_kept(log: ReplayLog) -> float | None:
    given = [(job.ended_s, job.deadline_s) for job in log.jobs if job.deadline_s is not None]
    n_kept = sum(ended_s is not None and ended_s <= deadline_s for ended_s, deadline_s in given)
    return n_kept / len(given) if given else None


def _fairness(log: ReplayLog, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    found = []
    for at, job in enumerate(log.jobs):
        overlap = np.minimum(ends, ends[at]) - np.maximum(begins, begins[at])
        life = max(ends[at] - begins[at], 1e-9)
        others = float(np.maximum(overlap, 0).sum()) / life
        part = max(int(log.capacity / max(others, 1.0)), 1)
        # Less than one device cannot be had: then the part is a share of its time.
        share = min(log.capacity / max(others, 1.0), 1.0)
        alone_s = job.cost.start_s + job.ideal_s(part) / share
        found.append(life / max(alone_s, 1e-9))
    return np.array(found)


COLUMNS = (
    ("POLICY", "policy", "{}"),
    ("JOBS", "n_jobs", "{}"),
    ("MEAN", "mean_s", "{:.0f}"),
    ("P50", "p50_s", "{:.0f}"),
    ("P90", "p90_s", "{:.0f}"),
    ("P99", "p99_s", "{:.0f}"),
    ("QUEUEING", "mean_queueing_s", "{:.0f}"),
    ("MAKESPAN", "makespan_s", "{:.0f}"),
    ("USED", "used_share", "{:.1%}"),
    ("RESIZES", "resizes_per_job", "{:.2f}"),
    ("FAIRNESS", "fairness_mean", "{:.2f}"),
    ("WORST", "fairness_worst", "{:.2f}"),
    ("IN-TIME", "deadlines_kept", "{:.1%}"),
    ("ROUND-MS", "decision_ms", "{:.1f}"),
)


def rows(figures: Sequence[ReplayFigures]) -> list[tuple[str, ...]]:
    """Returns a table with a heading; completion and queueing in seconds."""
    heading = tuple(title for title, _, _ in COLUMNS)
    return [
        heading,
        *(tuple(_cell(getattr(one, name), form) for _, name, form in COLUMNS) for one in figures),
    ]


def _cell(value: object, form: str) -> str:
    return "-" if value is None else form.format(value)
