"""Histories of jobs as traces, and replays as histories. Values only.

The work of a job of a history is what it did: the seconds at each size times its speed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from swell.api.jobhistory import HistoryJob, read_history
from swell.autoscaler.goodput.tables import PRIOR_SERIAL
from swell.replay.engine import ReplayLog
from swell.replay.traces import TraceError, TraceJob, read_trace


def read_jobs(path: Path) -> tuple[list[TraceJob], int]:
    """Returns the jobs of a trace or a history, and how many of a history were left out.

    Raises TraceError, HistoryFormatError and OSError.
    """
    with path.open("rb") as file:
        if not file.read(1).startswith(b"{"):
            return read_trace(path), 0
        file.seek(0)
        jobs, n_left_out = trace_jobs(list(read_history(file)))
    if not jobs:
        raise TraceError("has no job that ended after some work")
    return jobs, n_left_out


def trace_jobs(history: Sequence[HistoryJob]) -> tuple[list[TraceJob], int]:
    """Returns the jobs that ended after some work, and how many others were left out.

    Times begin with the first job that came.
    """
    begun = min((job.submitted for job in history), default=0.0)
    found: list[TraceJob] = []
    names: set[str] = set()
    for job in history:
        worked_s = _worked_s(job)
        if job.ended is None or worked_s <= 0:
            continue
        name = job.name if job.name not in names else f"{job.name}#{job.uid or len(names)}"
        names.add(name)
        found.append(
            TraceJob(
                name,
                job.submitted - begun,
                requested=max((size for _, size in job.sizes), default=job.minimum),
                work_s=worked_s,
                minimum=job.minimum,
                maximum=job.maximum,
                serial=serial_share(job.rates),
                deadline_s=None if job.deadline is None else job.deadline - begun,
            )
        )
    found.sort(key=lambda job: (job.submitted_s, job.name))
    return found, len(history) - len(found)


def serial_share(rates: Mapping[str, float]) -> float:
    """Returns the serial share that fits measured rates best, or the prior's.

    By n / (1 + share (n - 1)), what one replica would take of the time of n grows linearly in n.
    """
    table = sorted((int(size), rate) for size, rate in rates.items() if int(size) > 0 and rate > 0)
    if len(table) < 2:
        return PRIOR_SERIAL
    # n / rate = (1 + share (n - 1)) / rate of one: a line, by least squares.
    points = [(size - 1.0, size / rate) for size, rate in table]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
    slope /= sum((x - mean_x) ** 2 for x, _ in points)
    at_one = mean_y - slope * mean_x
    return min(max(slope / at_one, 0.0), 1.0) if at_one > 0 else 1.0


def _worked_s(job: HistoryJob) -> float:
    """Returns the work that a job did, in seconds of one replica."""
    if job.ended is None:
        return 0.0
    share = serial_share(job.rates)
    changes = [(at, size) for at, size in job.sizes if at < job.ended] + [(job.ended, 0)]
    return sum(
        (until - at) * size / (1 + share * (size - 1))
        for (at, size), (until, _) in pairwise(changes)
        if size
    )


def history_of(log: ReplayLog, epoch_s: float) -> list[HistoryJob]:
    """Returns a replay as a history that begins at a moment."""
    sizes: dict[str, list[tuple[float, int]]] = {job.name: [] for job in log.jobs}
    for at, held in log.rounds:
        for name, size in held.items():
            known = sizes[name]
            if size != (known[-1][1] if known else 0):
                known.append((epoch_s + at, size))
    found = []
    for job in log.jobs:
        ended = job.submitted_s if job.ended_s is None else job.ended_s
        changes = [one for one in sizes[job.name] if one[0] < epoch_s + ended]
        found.append(
            HistoryJob(
                name=job.name,
                submitted=epoch_s + job.submitted_s,
                program=job.program.name,
                started=None if job.started_s is None else epoch_s + job.started_s,
                ended=epoch_s + ended,
                outcome="Succeeded",
                maximum=job.size_max,
                sizes=(*changes, (epoch_s + ended, 0)),
                rates=job.true_rates(),
            )
        )
    return found
