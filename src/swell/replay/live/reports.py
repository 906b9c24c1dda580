"""The report of a replayed job, as its training library would write it. Values only."""

from __future__ import annotations

from swell.api.codec import encode
from swell.api.report import REPORT_BYTES_MAX, TrainingReport
from swell.replay.physics import JobRun

# As many sizes as fit a report; the last ones measured are the ones that count.
_RATES_MAX, _SHAPES_MAX = 16, 16


def _step_times(run: JobRun, n_shapes: int) -> dict[str, tuple[float, float]]:
    """Returns the shapes measured last, each size at least once."""
    newest = list(run.samples.values())[::-1]
    each = {(one.size, one.nodes): one for one in reversed(newest)}
    chosen = [*each.values(), *(one for one in newest if each[one.size, one.nodes] is not one)]
    return {
        f"{one.size}/{one.nodes}/{one.batch}": (
            float(f"{one.step_s:.4g}"),
            float(f"{one.sync_s:.4g}"),
        )
        for one in chosen[:n_shapes]
    }


def report_of(run: JobRun, *, tells_total: bool) -> TrainingReport | None:
    """Returns the report of a run, or None before its first step.

    Samples are those at the first batch size, so that rates are goodput: useful progress a second.
    """
    if not run.samples or not run.size:
        return None
    for n_shapes in range(_SHAPES_MAX, 0, -2):
        report = _report(run, n_shapes, tells_total=tells_total)
        if len(encode(report)) <= REPORT_BYTES_MAX:
            break
    return report


def _report(run: JobRun, n_shapes: int, *, tells_total: bool) -> TrainingReport:
    first = run.program.batches.first
    return TrainingReport(
        generation=run.n_resizes + 1,
        epoch=run.epoch,
        size=run.size,
        step=int(run.progress),
        samples=int(run.progress * first),
        total_samples=int(run.program.total_progress * first) if tells_total else None,
        rates={
            str(size): float(f"{rate:.4g}") for size, rate in list(run.rates.items())[-_RATES_MAX:]
        },
        step_times=_step_times(run, n_shapes),
        batch_range=run.program.batches,
        global_batch=first,
        gradient_norm2=1.0,
        gradient_variance=run.noise,
        last_pause_seconds=run.cost.pause_s,
    )
