"""One report of all that is known of the training, published by the leader."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from swell.api.report import (
    REPORT_BYTES_MAX,
    SaveReport,
    StragglerReport,
    TrainingReport,
    TrainingState,
)
from swell.train.checkpoints.saver import Saver
from swell.train.hang import HangWatch
from swell.train.reports.noise import GradientNoise
from swell.train.reports.rates import Rates
from swell.train.state.ledger import Progress

# Those who ask get an answer of this age at most; making one costs ~20 us.
PUBLISH_S = 0.5
# A member that is slower than the others' median by this factor is named.
STRAGGLER_RATIO = 1.2


@dataclass(slots=True)
class Facts:
    """The parts of a report that change with the group, not with the step."""

    generation: int = 0
    epoch: int = 0
    size: int = 1
    state: TrainingState = TrainingState.LOADING
    global_batch: int | None = None
    total_samples: int | None = None
    state_bytes: int | None = None
    last_pause_s: float | None = None
    slowest: StragglerReport | None = None
    noise: GradientNoise | None = None
    loss: float | None = None
    rates: Rates = field(default_factory=Rates)


class Reporter:
    """Collects facts, and publishes a report when the last one is old or the state has changed."""

    def __init__(
        self,
        publish: Callable[[TrainingReport], None],
        saver: Saver | None,
        clock: Callable[[], float] = time.monotonic,
        hang: HangWatch | None = None,
    ) -> None:
        self._publish, self._saver, self._clock, self._hang = publish, saver, clock, hang
        self.facts = Facts()
        self.is_leader = True
        self._published = -PUBLISH_S

    def enter(self, state: TrainingState, progress: Progress) -> None:
        """Publish the change to another activity at once."""
        if state is not TrainingState.TRAINING:
            self.pause()
        if state is not self.facts.state:
            self.facts.state = state
            self.publish(progress)

    def tick(self, progress: Progress) -> None:
        """Publish if the last report is old. A step is done."""
        if self._hang is not None:
            self._hang.beat()
        if self._clock() - self._published >= PUBLISH_S:
            self.publish(progress)

    def pause(self) -> None:
        """No step is due for now: that none is done is no hang."""
        if self._hang is not None:
            self._hang.pause()

    @contextlib.contextmanager
    def during(self, state: TrainingState, progress: Progress) -> Iterator[None]:
        """Say what the program does between two steps. That it does no step meanwhile is no hang.

        The time for the next step begins anew after it, if it had begun before.
        """
        before = self.facts.state
        was_watched = self._hang is not None and self._hang.is_watching
        self.enter(state, progress)
        try:
            yield
        finally:
            self.enter(before, progress)
            if self._hang is not None and was_watched:
                self._hang.beat()

    def publish(self, progress: Progress) -> None:
        self._published = self._clock()
        if self.is_leader:
            self._publish(self.report(progress))

    def report(self, progress: Progress) -> TrainingReport:
        facts, saver = self.facts, self._saver
        last = saver.last if saver else None
        noise = facts.noise
        report = TrainingReport(
            generation=facts.generation,
            epoch=facts.epoch,
            size=facts.size,
            step=progress.step,
            state=facts.state,
            samples=progress.samples,
            total_samples=facts.total_samples,
            rates=facts.rates.by_size(),
            compute_seconds=facts.rates.compute_s,
            sync_seconds=facts.rates.sync_s,
            global_batch=facts.global_batch,
            gradient_norm2=noise.norm2 if noise else None,
            gradient_variance=noise.variance if noise else None,
            loss=facts.loss,
            state_bytes=facts.state_bytes or (saver.n_bytes if saver else None),
            last_save=SaveReport(last.step, _rfc3339(last.time_s), round(last.seconds, 3))
            if last
            else None,
            saves=saver is not None,
            last_pause_seconds=facts.last_pause_s,
            slowest=facts.slowest,
        )
        return _bounded(report)


def slowest_of(seconds: list[float], indexes: list[int]) -> StragglerReport | None:
    """The slowest member, if it is slower than the median of all by `STRAGGLER_RATIO`."""
    median = sorted(seconds)[len(seconds) // 2] if len(seconds) > 2 else min(seconds, default=0.0)
    worst = max(range(len(seconds)), key=seconds.__getitem__)
    if median <= 0 or seconds[worst] < STRAGGLER_RATIO * median:
        return None
    return StragglerReport(indexes[worst], round(seconds[worst] / median, 2))


def _bounded(report: TrainingReport) -> TrainingReport:
    """The report without rates of the smallest sizes, if it would be too long with them."""
    while len(msgspec.json.encode(report)) > REPORT_BYTES_MAX and report.rates:
        rates = dict(report.rates)
        rates.pop(next(iter(rates)))
        report = msgspec.structs.replace(report, rates=rates)
    return report


def _rfc3339(time_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_s))
