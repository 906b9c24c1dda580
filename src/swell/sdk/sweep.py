"""A sweep that was submitted: one job for every row of parameters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from swell.api.meta import Body
from swell.cli.jobs.command_job import CommandOptions, command_job, random_name
from swell.cli.jobs.logs import ALL_CONTAINERS, logs_of
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.sweeps.actions import SweepLogs, stop_jobs
from swell.cli.sweeps.command import bodies_of
from swell.cli.sweeps.follow import sweep_to_the_end
from swell.cli.sweeps.retry import retry_jobs
from swell.cli.sweeps.row_jobs import held_back
from swell.cli.sweeps.rows import ROWS_MAX, SweepRow
from swell.cli.sweeps.state import SUCCEEDED, SweepState, body_of, read_sweep
from swell.cli.sweeps.submitting import create_jobs, refuse_known_sweep
from swell.sdk.errors import SwellError, as_swell_errors
from swell.sdk.job import JobHandle, PrintedLine

if TYPE_CHECKING:
    from swell.sdk.cluster import ClusterHandle

# A grid, or the rows themselves.
Rows = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


class SweepHandle:
    """A sweep as it was when it was last read; `refresh` and `wait` read it again."""

    def __init__(self, cluster: ClusterHandle, state: SweepState) -> None:
        self._cluster = cluster
        self._state = state

    def __repr__(self) -> str:
        return f"<swell.Sweep {self.name} {self._state.summary}>"

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def counts(self) -> dict[str, int]:
        """The number of jobs in each phase that one is in."""
        return self._state.counts

    @property
    def has_ended(self) -> bool:
        return self._state.has_ended

    @property
    def jobs(self) -> list[JobHandle]:
        """The jobs, in the order of their rows."""
        return [JobHandle(self._cluster, job) for job in self._state.jobs]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Index, job, parameters, phase and message of each row, as `swell get sweep -o json`."""
        return [dict(row) for row in body_of(self._state)["rows"]]

    def refresh(self) -> SweepHandle:
        """Read the sweep again, and return it."""
        with as_swell_errors(), self._cluster.opened() as connection:
            self._state = read_sweep(connection, self._state.namespace, self.name)
        return self

    def wait(self, timeout: float | None = None) -> SweepHandle:
        """Wait until all jobs have ended, and return the sweep; TimeoutError after `timeout` s."""
        deadline = None if timeout is None else time.monotonic() + timeout

        def look(state: SweepState) -> None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} has not ended after {timeout} s: {state.summary}")

        with as_swell_errors(), self._cluster.opened() as connection:
            namespace = self._state.namespace
            self._state = sweep_to_the_end(connection, namespace, self.name, look)
        return self

    def logs(self) -> Iterator[PrintedLine]:
        """Yield what the jobs have printed so far, job by job."""
        with as_swell_errors(), self._cluster.opened() as connection:
            source = SweepLogs(
                {job.key.name: logs_of(connection, job, ALL_CONTAINERS) for job in self._state.jobs}
            )
            for line in source.current_lines():
                yield PrintedLine(line.source, line.text.decode(errors="replace"))

    def stop(self, reason: str = "stopped by Sweep.stop") -> SweepHandle:
        """End the jobs that have not ended; their records and logs stay."""
        self.refresh()
        with as_swell_errors(), self._cluster.opened(writes=True) as connection:
            stop_jobs(connection, self._state, message=reason)
        return self

    def retry(self) -> SweepHandle:
        """Run the jobs again that have ended without success."""
        self.refresh()
        again = [job for job in self._state.jobs if job.has_ended and job.phase != SUCCEEDED]
        with as_swell_errors(), self._cluster.opened(writes=True) as connection:
            retry_jobs(connection, again, f"sweep/{self.name}")
        return self.refresh()

    def delete(self) -> None:
        """Remove all jobs with their records, and return when they are gone."""
        with as_swell_errors(), self._cluster.opened(writes=True) as connection:
            for job in self._state.jobs:
                delete_one(job.resource, job.body, connection)
            for job in self._state.jobs:
                wait_until_gone(job.resource, job.body, connection)


def new_sweep(
    cluster: ClusterHandle,
    work: str | Sequence[str] | Callable[..., object],
    rows: Rows,
    how: tuple[str, int | None],
    asked: CommandOptions,
) -> SweepHandle:
    """Submit a sweep; `how` is its name, if any, and how many jobs run at a time."""
    name, parallel = how
    name = name or random_name("sweep")
    values = _values(rows)
    texts = [
        SweepRow(index, {key: str(value) for key, value in row.items()})
        for index, row in enumerate(values)
    ]
    command = ["true"] if callable(work) else cluster.command_of(work, (), {})
    template = command_job(name, command, asked, os.environ).body
    cluster.add_caller_to(template, asked)
    bodies = bodies_of(template, name, texts)
    if callable(work):
        for body, row in zip(bodies, values, strict=True):
            _container(body)["command"] = list(cluster.command_of(work, (), row))
    if parallel is not None:
        bodies = held_back(bodies, parallel)
    with cluster.opened(writes=True) as connection:
        refuse_known_sweep(connection, cluster.namespace, name)
        create_jobs(connection, cluster.namespace, bodies, lambda _: None)
        return SweepHandle(cluster, read_sweep(connection, cluster.namespace, name))


def _values(rows: Rows) -> list[dict[str, Any]]:
    if isinstance(rows, Mapping):
        found = [
            dict(zip(rows, combination, strict=True)) for combination in product(*rows.values())
        ]
    else:
        found = [dict(row) for row in rows]
    if not found or len(found) > ROWS_MAX:
        raise SwellError(f"a sweep has 1 to {ROWS_MAX:,} rows, and here are {len(found):,}")
    return found


def _container(body: Body) -> Body:
    (role,) = body["spec"]["replicaSpecs"].values()
    found: Body = role["template"]["spec"]["containers"][0]
    return found
