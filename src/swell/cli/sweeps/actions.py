"""Shows sweeps for `swell get`, prints their output for `logs`, and ends their jobs for `stop`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import ClusterConnection
from swell.cli.jobs.logs import JobLogs, LogLine
from swell.cli.jobs.stopping import StopPhase, stop_job
from swell.cli.output import print_list, print_names, print_object
from swell.cli.sweep_names import sweep_names
from swell.cli.sweeps.state import (
    SweepState,
    body_of,
    listed,
    read_sweep,
    read_sweeps,
    table_of,
)

POLL_S = 0.2
_FORMATS = ("", "wide", "json", "yaml", "name")


def show_sweeps(
    arguments: Sequence[str],
    connection: ClusterConnection,
    output: str,
    namespace: str,
    *,
    everywhere: bool,
) -> None:
    """Print sweeps: the rows of those that are named, or a table of all."""
    if output not in _FORMATS:
        hint = f"one of {', '.join(filter(None, _FORMATS))}"
        raise CommandError(f"a sweep cannot be printed as {output!r}", hint, USAGE)
    scope = connection.namespace(namespace)
    names = sweep_names(arguments) or ()
    if names:
        states = [read_sweep(connection, scope, name) for name in names]
    else:
        states = read_sweeps(connection, "" if everywhere else scope)
    if output == "name":
        print_names(map(body_of, states))
    elif output in {"json", "yaml"}:
        bodies = [body_of(state) for state in states]
        if len(names) == 1:
            print_object(bodies[0], as_yaml=output == "yaml")
        else:
            print_list(bodies, as_yaml=output == "yaml")
    elif names:
        sys.stdout.write("\n".join(table_of(one, wide=output == "wide") for one in states))
    elif states:
        sys.stdout.write(listed(states, has_namespaces=everywhere))
    else:
        note("no sweeps found")


def stop_jobs(
    connection: ClusterConnection,
    state: SweepState,
    ending: StopPhase = StopPhase.FAILED,
    message: str = "stopped with its sweep",
) -> int:
    """Stop the jobs of a sweep that have not ended, and return their number.

    The last ones first: those that wait must not get the room of those that are stopped.
    """
    living = [job for job in state.jobs if not job.has_ended]
    for job in reversed(living):
        stop_job(connection, job, ending, message)
    return len(living)


class SweepLogs:
    """The output of all jobs of a sweep. Every line is handed out once, after its pod's name."""

    def __init__(self, logs: Mapping[str, JobLogs]) -> None:
        """Takes the output of every job by its name."""
        self._logs = logs

    def current_lines(self) -> Iterator[LogLine]:
        """Return all lines there are now, job by job."""
        for name, logs in self._logs.items():
            yield from _named(name, logs.current_lines())

    def followed(
        self, connection: ClusterConnection, namespace: str, sweep: str
    ) -> Iterator[Iterator[LogLine]]:
        """Yield lines as they come, until every job has ended."""
        while True:
            has_ended = read_sweep(connection, namespace, sweep).has_ended
            for name, logs in self._logs.items():
                yield _named(name, _latest(logs, has_ended=has_ended))
            if has_ended:
                return
            time.sleep(POLL_S)


def _latest(logs: JobLogs, *, has_ended: bool) -> Iterator[LogLine]:
    yield from logs.new_lines()
    if has_ended:
        yield from logs.last_lines()


def _named(job: str, lines: Iterable[LogLine]) -> Iterator[LogLine]:
    return (LogLine(f"{job}-{line.source}", line.text) for line in lines)
