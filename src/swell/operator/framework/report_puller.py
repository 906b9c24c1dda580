"""Asks the programs of running jobs for their reports, and keeps the newest of each job.

Where programs cannot be asked they send their reports by themselves, to the `report_inbox`.

It runs beside the decisions, which read what was kept last and never wait for an answer. A job is
asked every ten seconds, less often where there are many: all of them together have a fixed share
of the operator's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from swell.api.backoff import Backoff
from swell.api.codec import decode
from swell.api.meta import Key, Uid
from swell.operator.framework.reports import (
    REPORT_PACE_S,
    FetchReport,
    NoReportError,
    ReceivedReport,
    ReportError,
    ReportSource,
    ReportTarget,
    read_report,
)
from swell.runtime.clock import Clock
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain, run_workers
from swell.runtime.queue import QueueClosedError, WorkQueue

log = get_logger(__name__)

# Requests under way at once. Each is bounded by `report_client.ANSWER_S`.
N_WORKERS = 8
# The time between two jobs that are asked, where there are many. One job costs about 3 ms with the
# write of its status, so that all of them stay below a hundredth of a processor (docs/adr/0089).
SPACING_S = 0.4
# So many pods are asked for one report: the leader may have changed.
ASKED_MAX = 3
# A job that gives no report is asked less and less often: it waits for so long in addition.
SILENCE = Backoff(base_s=5.0, cap_s=120.0)


class LeaderHint(msgspec.Struct, frozen=True):
    """The answer of a member that does not lead: the index of the one that does, if it knows."""

    leader: int | None = None


@dataclass(slots=True)
class _FollowedJob:
    """A job that is asked: its last report, and how often in a row there was none."""

    uid: Uid
    received: ReceivedReport | None = None
    n_silent: int = 0


class ReportPuller:
    """See the module's docstring. `wake` is called with a job's key when a report has come."""

    def __init__(
        self,
        target: Callable[[Key], ReportTarget | None],
        fetch: FetchReport,
        queue: WorkQueue[Key],
        clock: Clock,
        wake: Callable[[Key], None],
        *,
        pace_s: float = REPORT_PACE_S,
    ) -> None:
        self._target = target
        self._fetch = fetch
        self._queue = queue
        self._clock = clock
        self._wake = wake
        self._pace_s = pace_s
        self._followed: dict[Key, _FollowedJob] = {}

    def received(self, key: Key, uid: Uid) -> ReceivedReport | None:
        """The newest report of a job; never one of its namesakes."""
        held = self._followed.get(key)
        return held.received if held is not None and held.uid == uid else None

    def note(self, key: Key) -> None:
        """Follow a job that has changed, if it reports and is not followed yet."""
        if key in self._followed:
            return
        target = self._target(key)
        if target is not None:
            self._followed[key] = _FollowedJob(target.uid)
            self._queue.add_after(key, self._interval_s(0))

    def take(self, key: Key, uid: Uid, raw: bytes) -> bool:
        """Keep a report that the pod with this UID has sent; whether it is one of the job's."""
        target = self._target(key)
        sources = target.sources if target is not None else ()
        source = next((one for one in sources if one.uid == uid), None)
        found = self._read(source, raw) if source is not None else None
        if target is None or found is None:
            return False
        held = self._followed.get(key)
        if held is None or held.uid != target.uid:
            held = self._followed[key] = _FollowedJob(target.uid)
            self._queue.add_after(key, self._interval_s(0))
        self._keep(key, held, found)
        return True

    async def run(self) -> None:
        """Ask jobs in turn, until `stop`."""
        await run_workers(self._worker, N_WORKERS)

    def stop(self) -> None:
        self._queue.close()

    async def _worker(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            result = await contain(self._pull(key))
            if isinstance(result, Bug):
                log.error("bug", key=str(key), trace=result.trace)
            self._queue.done(key)
            held = self._followed.get(key)
            if held is not None:
                self._queue.add_after(key, self._interval_s(held.n_silent))

    async def _pull(self, key: Key) -> None:
        target = self._target(key)
        if target is None:
            self._followed.pop(key, None)
            return
        held = self._followed.get(key)
        if held is None or held.uid != target.uid:
            held = self._followed[key] = _FollowedJob(target.uid)
        found = self._written(target) or await self._asked(target, held.received)
        if found is None:
            held.n_silent += 1
            return
        self._keep(key, held, found)

    def _keep(self, key: Key, held: _FollowedJob, found: ReceivedReport) -> None:
        held.n_silent = 0
        if held.received is None or held.received.report != found.report:
            held.received = found
            self._wake(key)

    def _interval_s(self, n_silent: int) -> float:
        pace_s = max(self._pace_s, SPACING_S * len(self._followed))
        return pace_s + SILENCE.full_s(n_silent)

    def _written(self, target: ReportTarget) -> ReceivedReport | None:
        """The newest of the reports that nodes have read from their pods' files."""
        found: list[ReceivedReport] = []
        for source in target.sources:
            if source.written:
                report = self._read(source, source.written.encode())
                found += [report] if report is not None else []
        return max(found, key=lambda one: (one.report.generation, one.report.step), default=None)

    async def _asked(
        self, target: ReportTarget, last: ReceivedReport | None
    ) -> ReceivedReport | None:
        """The report of the job's leader: of the last one known, else of whom the others name."""
        by_place = {(source.role, source.index): source for source in target.sources}
        waiting = [*target.sources]
        if last is not None and (last.role, last.index) in by_place:
            waiting.insert(0, by_place[last.role, last.index])
        asked: set[tuple[str, int]] = set()
        while waiting and len(asked) < ASKED_MAX:
            source = waiting.pop(0)
            if (source.role, source.index) in asked or not source.address:
                continue
            asked.add((source.role, source.index))
            try:
                answer = await self._fetch(target, source)
            except NoReportError as error:
                log.debug("no report", why=str(error))
                continue
            if answer.is_report:
                return self._read(source, answer.body)
            leader = by_place.get((source.role, _hint(answer.body)))
            if leader is not None:
                waiting.insert(0, leader)
        return None

    def _read(self, source: ReportSource, raw: bytes) -> ReceivedReport | None:
        try:
            report = read_report(raw)
        except ReportError as error:
            log.debug("bad report", role=source.role, index=source.index, why=str(error)[:200])
            return None
        return ReceivedReport(report, self._clock.now(), source.role, source.index)


def _hint(raw: bytes) -> int:
    """The index of the leader that an answer names; -1 if it names none."""
    try:
        leader = decode(raw, LeaderHint).leader
    except msgspec.DecodeError:
        return -1
    return -1 if leader is None else leader
