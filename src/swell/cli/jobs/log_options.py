"""Which part of a log is printed: the last lines, the newest, those of the run before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from swell.api.times import parse_time
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob
from swell.cli.jobs.logs import ContainerFilter, JobLogs, LogLine, ServerJobLogs, logs_of


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The flags of `swell logs` about lines; without any, all lines are printed."""

    tail: int | None = None
    since_s: int | None = None
    timestamps: bool = False
    previous: bool = False
    since_time: str = ""
    limit_bytes: int | None = None
    prefix: bool = False  # the pod before each line, also where there is only one

    def check(self) -> None:
        """Refuse two beginnings, and one that is no time: servers answer those with riddles."""
        if self.since_time and self.since_s is not None:
            raise CommandError("--since and --since-time contradict each other", exit_code=USAGE)
        try:
            parse_time(self.since_time or "2000-01-01T00:00:00Z")
        except ValueError as error:
            hint = "write it as 2026-01-31T12:00:00Z"
            raise CommandError(f"not a time: {self.since_time!r}", hint, USAGE) from error

    @property
    def needs_server(self) -> bool:
        """Whether only an API server can answer: log files hold the lines alone."""
        is_dated = self.since_s is not None or bool(self.since_time)
        return is_dated or self.timestamps or self.previous or self.limit_bytes is not None

    def query(self) -> str:
        """Return the options as parameters of a request for a pod's log."""
        asked = {
            "tailLines": self.tail,
            "sinceSeconds": self.since_s,
            "timestamps": "true" if self.timestamps else None,
            "previous": "true" if self.previous else None,
            "sinceTime": self.since_time or None,
            "limitBytes": self.limit_bytes,
        }
        return urlencode({name: value for name, value in asked.items() if value is not None})


def chosen_logs(
    connection: ClusterConnection, job: FoundJob, filter_: ContainerFilter, wanted: LogOptions
) -> JobLogs:
    """Return the part of a job's output that was asked for."""
    if wanted.needs_server:
        return ServerJobLogs(connection, job, filter_, wanted.query())
    found = logs_of(connection, job, filter_)
    return found if wanted.tail is None else TailedLogs(found, wanted.tail)


class TailedLogs:
    """The last lines of each pod in logs that are there already, and then all that come."""

    def __init__(self, logs: JobLogs, n_lines: int) -> None:
        self._logs = logs
        self._n_lines = n_lines
        self._is_begun = False

    def new_lines(self) -> Iterator[LogLine]:
        if self._is_begun:
            yield from self._logs.new_lines()
        else:
            self._is_begun = True
            yield from self._last_of_each(self._logs.new_lines())

    def last_lines(self) -> Iterator[LogLine]:
        if self._is_begun:
            yield from self._logs.last_lines()
        else:
            yield from self.current_lines()

    def current_lines(self) -> Iterator[LogLine]:
        self._is_begun = True
        yield from self._last_of_each(self._logs.current_lines())

    def _last_of_each(self, lines: Iterator[LogLine]) -> Iterator[LogLine]:
        kept: dict[str, deque[LogLine]] = {}
        for line in lines:
            kept.setdefault(line.source, deque(maxlen=self._n_lines)).append(line)
        for some in kept.values():
            yield from some
