"""Reports of training programs: read with every bound checked, and turned into a status. Pure.

A report is the user's word. What is out of bounds is left out or makes the report none; nothing in
it decides about anybody else's room.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from swell.api.codec import decode
from swell.api.meta import Uid
from swell.api.report import REPORT_BYTES_MAX, SaveReport, StragglerReport, TrainingReport
from swell.api.schemas.training import RATES_MAX
from swell.api.times import SKEW_S, format_time, has_passed, parse_time
from swell.api.training import TrainingSave, TrainingStatus, TrainingStraggler

# Replicas, nodes, and samples of one replica in a step.
_SHAPE = re.compile(r"[1-9][0-9]{0,5}/[1-9][0-9]{0,5}/[1-9][0-9]{0,8}", re.ASCII)
# No step takes longer than a day; the texts of a status are short by these bounds.
_STEP_S_MAX, _BATCH_MAX = 86400.0, 999_999_999
_OK = 200
# The largest integer that every JSON reader keeps exact.
COUNT_MAX = 2**53 - 1
_NUMBER_MAX = 1e15
_SIZE_MAX = 1_000_000
# A time later than this is no estimate but noise.
ETA_S_MAX = 10 * 365 * 86400.0
# A job's status is written for a report alone at most six times a minute.
REPORT_PACE_S = 10.0


class ReportError(ValueError):
    """A text that is no report: too long, not of the shape, or out of bounds."""


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A report, when it came, and the role and index of the leader that told it."""

    report: TrainingReport
    at: float
    role: str
    index: int


@dataclass(frozen=True, slots=True)
class ReportSource:
    """A pod that may be asked for its job's report, or one whose report its node has read."""

    role: str
    index: int
    address: str
    written: str = ""
    uid: str = ""  # the pod's
    pod: str = ""  # its name


@dataclass(frozen=True, slots=True)
class ReportTarget:
    """A job that reports: its pods in the order in which they are asked, their port, its token."""

    uid: Uid
    token: str
    port: int
    sources: tuple[ReportSource, ...]
    namespace: str = ""


class NoReportError(Exception):
    """The pod cannot be reached, or does not answer as a program does that reports."""


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The status of an answer, and its content."""

    status: int
    body: bytes

    @property
    def is_report(self) -> bool:
        return self.status == _OK


# Asks one of a job's pods. Raises NoReportError.
FetchReport = Callable[[ReportTarget, ReportSource], Awaitable[ReportAnswer]]


def read_report(raw: bytes) -> TrainingReport:
    """The report in a text. Raises ReportError for a text that is none."""
    if len(raw) > REPORT_BYTES_MAX:
        raise ReportError(f"{len(raw)} bytes are more than {REPORT_BYTES_MAX}")
    try:
        report = decode(raw, TrainingReport)
    except msgspec.DecodeError as error:
        raise ReportError(str(error)) from error
    counts = (report.generation, report.epoch, report.size, report.step, report.samples)
    optional = (report.total_samples, report.global_batch, report.state_bytes)
    for count in (*counts, *(one for one in optional if one is not None)):
        if not 0 <= count <= COUNT_MAX:
            raise ReportError(f"{count} is out of bounds")
    if report.size > _SIZE_MAX:
        raise ReportError(f"a group of {report.size} is out of bounds")
    return report


def training_status(received: ReceivedReport) -> TrainingStatus:
    """The part of a job's status that a report fills in."""
    report = received.report
    rate = report.rates.get(str(report.size))
    return TrainingStatus(
        reported_at=format_time(received.at),
        state=report.state,
        progress=_progress(report),
        rate=_text(rate),
        eta=_eta(report, rate, received.at),
        generation=report.generation,
        size=report.size,
        step=report.step,
        samples=report.samples,
        total_samples=report.total_samples,
        rates=_rates(report.rates),
        step_times=_step_times(report.step_times),
        batch_range=_batch_range(report.batch_range),
        global_batch=report.global_batch,
        noise=_noise(report),
        loss=_text(report.loss, signed=True),
        last_save=_save(report.last_save, received.at),
        saves=report.saves,
        last_pause_seconds=_text(report.last_pause_seconds),
        slowest=_slowest(report.slowest),
    )


def newer_training(
    held: TrainingStatus | None, received: ReceivedReport | None
) -> TrainingStatus | None:
    """The status' part for the newest report; the one held if none came since."""
    if received is None:
        return held
    if held is not None and parse_time(held.reported_at) >= int(received.at):
        return held
    return training_status(received)


def report_is_due(held: TrainingStatus | None, now: float) -> bool:
    """Whether a report may be written for its own sake."""
    return held is None or has_passed(parse_time(held.reported_at), REPORT_PACE_S, now)


def _progress(report: TrainingReport) -> str:
    if not report.total_samples:
        return ""
    # Rounded down: 100% is said when all are used.
    return f"{min(100, 100 * report.samples // report.total_samples)}%"


def _eta(report: TrainingReport, rate: float | None, at: float) -> str | None:
    if report.total_samples is None or not _is_sound(rate) or not rate:
        return None
    left_s = max(0, report.total_samples - report.samples) / rate
    return format_time(at + left_s) if left_s <= ETA_S_MAX else None


def _rates(rates: dict[str, float]) -> dict[str, str]:
    sizes = sorted(int(size) for size in rates if size.isascii() and size.isdecimal())
    known = [size for size in sizes if size <= _SIZE_MAX and _is_sound(rates.get(str(size)))]
    return {str(size): _text(rates[str(size)]) for size in known[-RATES_MAX:]}


def _step_times(times: dict[str, tuple[float, float]]) -> dict[str, str]:
    """The measured shapes, the last ones if there are too many; what is no shape is left out."""
    known = {
        shape: f"{_text(step_s)}/{_text(sync_s)}"
        for shape, (step_s, sync_s) in times.items()
        if _SHAPE.fullmatch(shape) and 0 < step_s <= _STEP_S_MAX and 0 <= sync_s <= step_s
    }
    return dict(list(known.items())[-RATES_MAX:])


def _batch_range(batches: tuple[int, int, int, int] | None) -> str:
    if batches is None or not all(1 <= one <= _BATCH_MAX for one in batches):
        return ""
    return "/".join(map(str, batches))


def _noise(report: TrainingReport) -> str:
    norm2, variance = report.gradient_norm2, report.gradient_variance
    if not _is_sound(norm2) or not _is_sound(variance) or not norm2 or variance is None:
        return ""
    return _text(variance / norm2)


def _save(save: SaveReport | None, now: float) -> TrainingSave | None:
    if save is None or not 0 <= save.step <= COUNT_MAX:
        return None
    try:
        at = parse_time(save.time)
    except (ValueError, OverflowError):
        return None
    if not 0 <= at <= now + SKEW_S:
        return None
    return TrainingSave(step=save.step, time=format_time(at), seconds=_text(save.seconds))


def _slowest(slowest: StragglerReport | None) -> TrainingStraggler | None:
    if slowest is None or not 0 <= slowest.index <= _SIZE_MAX or not _is_sound(slowest.ratio):
        return None
    steps = slowest.steps if 0 <= slowest.steps <= COUNT_MAX else 0
    return TrainingStraggler(index=slowest.index, ratio=_text(slowest.ratio), steps=steps)


def _text(value: float | None, *, signed: bool = False) -> str:
    """A number with four digits that count; empty for none, and for one that is out of bounds."""
    magnitude = abs(value) if signed and value is not None else value
    if value is None or not _is_sound(magnitude):
        return ""
    return f"{value:.0f}" if magnitude is not None and magnitude >= 1000 else f"{value:.4g}"


def _is_sound(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and 0 <= value <= _NUMBER_MAX
