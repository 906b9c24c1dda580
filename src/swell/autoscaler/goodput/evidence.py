"""Reports of speed and progress, read as hostile input. Values only.

A report is the user's word. A number that is absurd or contradicts another makes the whole report
none: the job is then sized by the prior, as if it had reported nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.training import TrainingStatus
from swell.autoscaler.goodput.batches import BatchRange
from swell.autoscaler.goodput.stepmodel import SpeedSample, StepModel

# A speed-up this far above linear is no measurement. Caches make real programs a little faster
# than linear; the bounds of the speed tables are tighter.
_ABOVE_LINEAR_MAX = 4.0
_RATE_MAX = 1e12
_SIZE_MAX = 100_000
_STEP_S_MAX = 86400.0
_SAMPLES_MAX = 24
_NUMBER_SIZE_MAX = 32


@dataclass(frozen=True, slots=True)
class SpeedEvidence:
    """Samples a second by size; the samples done, all of them if known; noise; a resize's pause.

    `samples` are means of step times with their shape, from programs that report them; `batches` is
    the range of batch sizes of a program that adapts its own. `model` is a fit of measurements of
    all runs of the program, where they are shared; it replaces `samples`.
    """

    rates: tuple[tuple[int, float], ...] = ()
    done: float = 0.0
    total: float | None = None
    global_batch: float | None = None
    noise: float | None = None
    pause_s: float | None = None
    samples: tuple[SpeedSample, ...] = ()
    batches: BatchRange | None = None
    model: StepModel | None = None
    is_shared: bool = False

    @property
    def largest(self) -> int:
        """The largest size that was measured."""
        sizes = [size for size, _ in self.rates] + [one.size for one in self.samples]
        return max(sizes, default=0)

    @property
    def left(self) -> float | None:
        """The samples that are left, or None if the program does not tell how many there are."""
        return None if self.total is None else max(self.total - self.done, 0.0)


def read_evidence(status: TrainingStatus | None) -> SpeedEvidence | None:
    """Returns what a status says of the job's speed, or None if nothing of it can be believed."""
    if status is None:
        return None
    rates = _rates(status.rates)
    if rates is None:
        return None
    total = status.total_samples
    if not 0 <= status.samples <= _RATE_MAX or (total is not None and not 0 < total <= _RATE_MAX):
        return None
    if total is not None and status.samples > total:
        return None  # more is done than there is to do
    batch = status.global_batch
    samples = _samples(status.step_times)
    if samples is None:
        return None
    return SpeedEvidence(
        rates=rates,
        done=float(status.samples),
        total=None if total is None else float(total),
        global_batch=float(batch) if batch is not None and 0 < batch <= _RATE_MAX else None,
        noise=_number(status.noise, _RATE_MAX),
        pause_s=_number(status.last_pause_seconds, 3600.0),
        samples=samples,
        batches=_batches(status.batch_range) if samples else None,
    )


def _rates(texts: Mapping[str, str]) -> tuple[tuple[int, float], ...] | None:
    """Returns rates by size; None if one of them is absurd, or they contradict each other."""
    rates: list[tuple[int, float]] = []
    for size_text, rate_text in sorted(texts.items()):
        if not (size_text.isascii() and size_text.isdecimal()) or len(size_text) > 6:
            return None
        size, rate = int(size_text), _number(rate_text, _RATE_MAX)
        if not 1 <= size <= _SIZE_MAX or rate is None or rate <= 0:
            return None
        rates.append((size, rate))
    rates.sort()
    if not rates:
        return None
    each = [rate / size for size, rate in rates]
    for at in range(1, len(each)):
        if each[at] > _ABOVE_LINEAR_MAX * min(each[:at]):
            return None
    return tuple(rates)


def _samples(texts: Mapping[str, str]) -> tuple[SpeedSample, ...] | None:
    """Returns step times by shape; None if one of them is absurd."""
    found = []
    for shape, times in sorted(texts.items())[:_SAMPLES_MAX]:
        parts, pair = shape.split("/"), times.split("/")
        if len(parts) != 3 or len(pair) != 2 or not all(map(_is_count, parts)):
            return None
        size, nodes, batch = map(int, parts)
        step_s, sync_s = (_number(one, _STEP_S_MAX) for one in pair)
        if not 1 <= nodes <= size <= _SIZE_MAX or step_s is None or sync_s is None:
            return None
        if not 0 <= sync_s <= step_s or step_s <= 0:
            return None  # the part would be longer than the whole
        found.append(SpeedSample(size, nodes, float(batch), step_s, sync_s))
    return tuple(found)


def _batches(text: str) -> BatchRange | None:
    """Returns the batches of a program that adapts them, or None if they contradict each other."""
    parts = text.split("/")
    if len(parts) != 4 or not all(map(_is_count, parts)):
        return None
    found = BatchRange(*map(int, parts))
    is_sound = 1 <= found.first <= found.largest and 1 <= found.local_min <= found.local_max
    return found if is_sound else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) >= 1


def _number(text: str, most: float) -> float | None:
    """Returns a number from 0 to `most`, or None for anything else."""
    if not text or len(text) > _NUMBER_SIZE_MAX:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= most else None
