"""Replayed jobs that run where their pods are, and answer for their reports.

A program notices a change of its pods when no further one follows for a moment: the pods of a
resize start within a second. From then on it runs by its physics, to the end of each epoch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from swell.api.codec import encode
from swell.operator.framework.reports import NoReportError, ReportAnswer
from swell.replay.live.reports import report_of
from swell.replay.physics import JobRun
from swell.runtime.clock import Clock

# A resize is complete when no pod has come or gone for so long.
SETTLE_S = 0.5
# A report of progress changes at most this often, and by a hundredth of the work at least, since
# each change has to be written; one of another size follows at once.
REPORT_S = 60.0


class ReplayedProgram:
    """The program of one job: its pods by node, and the run that they carry on."""

    def __init__(
        self, run: JobRun, clock: Clock, on_end: Callable[[], Awaitable[None]], *, tells_total: bool
    ) -> None:
        self.run = run
        self._clock = clock
        self._on_end = on_end
        self._tells_total = tells_total
        self._nodes: dict[str, str] = {}  # of running pods, by name
        self._changed = asyncio.Event()
        self._now_s = clock.monotonic()
        self._report: tuple[float, bytes] = (-REPORT_S, b"")
        self._reported = ((0, 0), (0, 0))

    def start_pod(self, pod: str, node: str) -> None:
        self._nodes[pod] = node
        self._changed.set()

    def stop_pod(self, pod: str) -> None:
        if self._nodes.pop(pod, None) is not None:
            self._changed.set()

    async def live(self) -> None:
        """Run until the job has ended."""
        while not self.run.is_done:
            left_s = self.run.next_change_s()
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                self._advance()
                continue
            await self._settle()
            self._advance()
            self._place()
        await self._on_end()

    def answer(self) -> ReportAnswer:
        """Returns the program's report. Raises NoReportError before its first step."""
        self._advance()
        now, run = self._clock.monotonic(), self.run
        at, body = self._report
        shapes = (run.size, len(run.rates))
        work = (len(run.samples), int(100 * run.progress / run.program.total_progress))
        is_due = now - at >= REPORT_S and work != self._reported[1]
        if not body or shapes != self._reported[0] or is_due:
            report = report_of(run, tells_total=self._tells_total)
            if report is None:
                raise NoReportError(run.name)
            body = encode(report)
            self._report, self._reported = (now, body), (shapes, work)
        return ReportAnswer(200, body)

    async def _settle(self) -> None:
        while self._changed.is_set():
            self._changed.clear()
            await self._clock.sleep(SETTLE_S)

    def _advance(self) -> None:
        before, self._now_s = self._now_s, self._clock.monotonic()
        self.run.advance(self._now_s - before, before)

    def _place(self) -> None:
        counts = Counter(self._nodes.values())
        self.run.place(tuple(counts[node] for node in sorted(counts)), self._now_s)
