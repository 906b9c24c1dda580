"""Programs of simulated jobs that answer for their reports: truly, not at all, or nonsense."""

from __future__ import annotations

from dataclasses import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import encode
from swell.api.report import StragglerReport, TrainingReport
from swell.operator.aitrainingjob.kind import AITrainingJobInformers, report_target
from swell.operator.framework.reports import (
    FetchReport,
    NoReportError,
    ReportAnswer,
    ReportSource,
    ReportTarget,
)
from swell.sim.process import Ports

# Of all answers: none at all, something that is no report, and one that names another leader.
SILENT, NONSENSE, OTHER = 0.1, 0.2, 0.6
# Of all reports: those of a program that saves when it is asked to leave.
SAVES = 0.7


def with_addresses(job: AITrainingJob, informers: AITrainingJobInformers) -> ReportTarget | None:
    """The job's pods under addresses that say which pod it is: simulated nodes give out none."""
    target = report_target(job, informers)
    if target is None:
        return None
    sources = tuple(replace(one, address=f"{one.role}/{one.index}") for one in target.sources)
    return replace(target, sources=sources)


def simulated_programs(ports: Ports) -> FetchReport:
    async def fetch(target: ReportTarget, source: ReportSource) -> ReportAnswer:
        chance = ports.random.random()
        await ports.clock.sleep(2 * ports.random.random() ** 4)
        if chance < SILENT or not target.token or not target.port:
            raise NoReportError(source.address)
        if chance < NONSENSE:
            return ReportAnswer(200, b'{"generation": -1}')
        if chance < OTHER:
            return ReportAnswer(404, encode({"leader": ports.random.randrange(5)}))
        size, step = ports.random.randrange(1, 5), int(ports.clock.monotonic())
        saves = ports.random.random() < SAVES
        # Now and then one of the members is slow, and not always slow enough.
        slowest = StragglerReport(step % size, 1 + step % 3, step % 100) if step % 2 else None
        report = TrainingReport(
            generation=1, epoch=1, size=size, step=step, saves=saves, slowest=slowest
        )
        return ReportAnswer(200, encode(report))

    return fetch
