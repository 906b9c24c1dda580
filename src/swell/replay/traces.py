"""Traces: which jobs came when. Read from CSV files of several formats. Values only.

| columns | format |
| --- | --- |
| name, time, application, num_replicas, batch_size | Pollux' workloads; programs by profile |
| name, time, work_s, min, max, serial, deadline | ours: seconds of work of one replica, sizes, … |
| job_id, submission_time, num_iteration, model_name, deadline, batch_size | ElasticFlow's |

Of our format `min` (1), `max` (1), `serial` (0.05) and `deadline` (none) may be left out.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_POLLUX = {"name", "time", "application", "num_replicas"}
_PLAIN = {"name", "time", "work_s"}
_ELASTIC_FLOW = {"job_id", "submission_time", "num_iteration", "model_name", "batch_size"}
_JOBS_MAX = 1_000_000


class TraceError(ValueError):
    """A file that is no trace, with the line at which that shows."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace: a program by name, or else an amount of work with its serial share."""

    name: str
    submitted_s: float
    program: str = ""
    requested: int = 1
    work_s: float = 0.0
    minimum: int = 1
    maximum: int = 1
    serial: float = 0.05
    deadline_s: float | None = None
    steps: float = 0.0  # of a program whose speeds are in a table, at this batch size
    batch: int = 0


def read_trace(path: Path) -> list[TraceJob]:
    """Returns the jobs of a file in the order of their coming. Raises TraceError."""
    try:
        with path.open(newline="") as file:
            rows = csv.DictReader(file)
            columns = set(rows.fieldnames or ())
            if columns >= _POLLUX:
                read = _pollux_job
            elif columns >= _PLAIN:
                read = _plain_job
            elif columns >= _ELASTIC_FLOW:
                read = _elastic_flow_job
            else:
                raise TraceError(f"the columns {', '.join(sorted(columns))} are of no known format")
            jobs = []
            for line, row in enumerate(rows, 2):
                jobs.append(_checked(line, row, read))
                if len(jobs) > _JOBS_MAX:
                    raise TraceError(f"has more than {_JOBS_MAX} jobs")
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"is no CSV file: {error}") from error
    if not jobs:
        raise TraceError("has no jobs")
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TraceError(f"has two jobs of the name {twice}")
    if read is _elastic_flow_job:
        jobs = _from_the_first(jobs)
    return sorted(jobs, key=lambda job: (job.submitted_s, job.name))


def _checked(line: int, row: Mapping[str, str], read: object) -> TraceJob:
    try:
        job: TraceJob = read(row)  # type: ignore[operator]
    except (ValueError, TypeError) as error:
        raise TraceError(f"line {line}: {error}") from error
    if not 0 <= job.submitted_s < 1e9 or not 0 <= job.work_s < 1e12:
        raise TraceError(f"line {line}: a time is out of bounds")
    if not 0 <= job.steps < 1e12 or not 0 <= job.batch < 1e9 or not 1 <= job.requested < 1e6:
        raise TraceError(f"line {line}: an amount is out of bounds")
    if not 1 <= job.minimum <= job.maximum or not 0 <= job.serial <= 1:
        raise TraceError(f"line {line}: min, max or serial is out of bounds")
    if job.deadline_s is not None and not 0 <= job.deadline_s < 1e9:
        raise TraceError(f"line {line}: the deadline is out of bounds")
    return job


def _pollux_job(row: Mapping[str, str]) -> TraceJob:
    return TraceJob(
        name=row["name"],
        submitted_s=float(row["time"]),
        program=row["application"],
        requested=int(row["num_replicas"]),
    )


def _plain_job(row: Mapping[str, str]) -> TraceJob:
    minimum = int(row.get("min") or 1)
    return TraceJob(
        name=row["name"],
        submitted_s=float(row["time"]),
        work_s=float(row["work_s"]),
        minimum=minimum,
        maximum=int(row.get("max") or minimum),
        requested=int(row.get("max") or minimum),
        serial=float(row.get("serial") or 0.05),
        deadline_s=float(row["deadline"]) if row.get("deadline") else None,
    )


def _elastic_flow_job(row: Mapping[str, str]) -> TraceJob:
    return TraceJob(
        name=row["job_id"],
        submitted_s=float(row["submission_time"]),
        program=row["model_name"],
        requested=int(row.get("num_gpu") or 1),
        deadline_s=float(row["deadline"]) if row.get("deadline") else None,
        steps=float(row["num_iteration"]),
        batch=int(row["batch_size"]),
    )


def _from_the_first(jobs: list[TraceJob]) -> list[TraceJob]:
    """Returns the jobs with times from the first one's coming: theirs begin weeks before it."""
    begun = min(job.submitted_s for job in jobs)
    return [
        replace(
            job,
            submitted_s=job.submitted_s - begun,
            deadline_s=None if job.deadline_s is None else job.deadline_s - begun,
        )
        for job in jobs
    ]
