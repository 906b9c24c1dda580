"""Stays with a job to its end: prints what its containers print, and tells how it goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.cli.connection import ClusterConnection
from swell.cli.jobs.logs import JobLogs, LogLine
from swell.cluster.kube import calls
from swell.runtime.errors import NotFoundError, UnreachableError

POLL_S = 0.1
ASK_S = 0.2
# A cluster that is started again meanwhile is waited for.
SILENT_S_MAX = 60.0

Print = Callable[[Iterable[LogLine]], None]


@dataclass(slots=True)
class JobFollower:
    """Follows one job. `tell` gets a sentence when something is worth one."""

    connection: ClusterConnection
    key: Key
    uid: Uid
    logs: JobLogs
    tell: Callable[[str], None]
    _told: str = ""
    _silent_since: float | None = None

    def to_the_end(self, show: Print) -> AITrainingJob | None:
        """The job in its final phase; None when it is gone instead."""
        while True:
            job = self._ask()
            self._tell_progress(job)
            if job is None or job.status.phase in FINAL_PHASES:
                show(self.logs.last_lines())
                return job
            asked_at = time.monotonic()
            while time.monotonic() - asked_at < ASK_S:
                show(self._new_lines())
                time.sleep(POLL_S)

    def until_gone(self, show: Print) -> None:
        """Stay until the object is gone, whatever phase it is in."""
        while self._ask() is not None:
            show(self._new_lines())
            time.sleep(POLL_S)
        show(self.logs.last_lines())

    def _ask(self) -> AITrainingJob | None:
        """The job as it is now. Of a silent server nothing is concluded for a while."""
        while True:
            try:
                job = self.connection.client.send(calls.get(AI_TRAINING_JOBS, self.key))
            except NotFoundError:
                return None
            except UnreachableError:
                if not self._has_patience():
                    raise
                time.sleep(ASK_S)
            else:
                self._silent_since = None
                return job if job.metadata.uid == self.uid else None

    def _has_patience(self) -> bool:
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            self.tell("the cluster does not answer; waiting for it")
        return now - self._silent_since < SILENT_S_MAX

    def _new_lines(self) -> Iterator[LogLine]:
        try:
            yield from self.logs.new_lines()
        except UnreachableError:
            return  # the next question is about the job, and tells

    def _tell_progress(self, job: AITrainingJob | None) -> None:
        if job is None or job.status.phase in FINAL_PHASES:
            return
        status = job.status
        text = " ".join(part for part in (status.phase.value or "Accepted", status.ready) if part)
        if text != self._told:
            self._told = text
            self.tell(text)


def print_prefixed(lines: Iterable[LogLine]) -> None:
    """Every line on stdout, after who printed it."""
    out = sys.stdout.buffer
    for line in lines:
        out.write(b"[%s] %s\n" % (line.source.encode(), line.text))
    out.flush()


def print_plain(lines: Iterable[LogLine]) -> None:
    out = sys.stdout.buffer
    for line in lines:
        out.write(line.text + b"\n")
    out.flush()
