"""Follows a job to its end: prints the output of its containers and reports its progress.

The job is watched over one connection (`cluster.kube.watching`); between two looks at it, new
output is printed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from swell.api.meta import Body
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob
from swell.cli.jobs.live_line import FollowLine
from swell.cli.jobs.logs import JobLogs, LogLine
from swell.cluster.kube.watching import WatchedObjects
from swell.runtime.cluster import Selection
from swell.runtime.errors import UnreachableError

# How long output may wait to be printed. Log files give no notice when they grow.
POLL_S = 0.1
RETRY_S = 0.2
# An operator looks at a new job within moments; after this there is most likely none.
UNSEEN_S_MAX = 10.0
DOES_ONE_RUN = "does one run in this cluster? (swell operator)"
# A cluster that does not answer may be in the middle of a restart.
SILENT_S_MAX = 60.0

Print = Callable[[Iterable[LogLine]], None]


@dataclass(slots=True)
class JobFollower:
    """Follows one job. `line` gets its state, and why, when that changes.

    `check_interrupt` is called where following can be broken off and taken up again without a
    loss; it does so by raising.
    """

    connection: ClusterConnection
    job: FoundJob
    logs: JobLogs
    line: FollowLine
    check_interrupt: Callable[[], None] = lambda: None
    _reported: str = ""
    _silent_since: float | None = None
    _unseen_since: float | None = None

    def to_the_end(self, show: Print) -> FoundJob | None:
        """Returns the job in its final phase; None when it was deleted before."""
        with self._watched() as jobs:
            while True:
                job = self._poll(jobs)
                if job is None or job.has_ended:
                    show(self._new_lines())  # of containers that began since the last look
                    show(self.logs.last_lines())
                    return job
                self._report_progress(job)
                show(self._new_lines())

    def _watched(self) -> WatchedObjects[Body]:
        key = self.job.key
        selection = Selection(key.namespace, fields=f"metadata.name={key.name}")
        rng = random.Random()  # noqa: S311
        return WatchedObjects(self.connection.client, self.job.resource, selection, rng)

    def _poll(self, jobs: WatchedObjects[Body]) -> FoundJob | None:
        """Returns the job after its next change, or as it is after a moment; None when gone.

        While the server does not answer nothing is concluded: this waits for it, for a while.
        """
        while True:
            self.check_interrupt()
            try:
                jobs.poll(POLL_S)
            except UnreachableError:
                if not self._has_patience():
                    raise
                time.sleep(RETRY_S)
            else:
                self._silent_since = None
                body = jobs.objects.get(self.job.key)
                job = FoundJob(self.job.resource, body) if body is not None else None
                # A job of the same name that was created since is another one.
                return job if job is not None and job.uid == self.job.uid else None

    def _has_patience(self) -> bool:
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            self.line.report("the cluster does not answer; waiting for it")
        return now - self._silent_since < SILENT_S_MAX

    def _is_unseen_for_long(self) -> bool:
        now = time.monotonic()
        if self._unseen_since is None:
            self._unseen_since = now
        return now - self._unseen_since >= UNSEEN_S_MAX

    def _new_lines(self) -> Iterator[LogLine]:
        try:
            yield from self.logs.new_lines()
        except UnreachableError:
            return  # the next look at the job meets the same server, and reports it

    def _report_progress(self, job: FoundJob) -> None:
        text = " ".join(part for part in (job.phase or "Accepted", job.ready) if part)
        if not job.phase and self._is_unseen_for_long():
            text += f": no operator has looked at the job for {UNSEEN_S_MAX:.0f} s; {DOES_ONE_RUN}"
        if job.message:
            text = ": ".join(filter(None, (text, job.wait_reason, job.message)))
        if text != self._reported:
            self._reported = text
            self.line.progress(" ".join(text.split()))


def print_prefixed(lines: Iterable[LogLine]) -> None:
    """Print every line after the role and index of its pod."""
    out = sys.stdout.buffer
    for line in lines:
        out.write(b"[%s] %s\n" % (line.source.encode(), line.text))
    out.flush()


def print_plain(lines: Iterable[LogLine]) -> None:
    """Print every line as it is."""
    out = sys.stdout.buffer
    for line in lines:
        out.write(line.text + b"\n")
    out.flush()
