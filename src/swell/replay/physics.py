"""One replayed job: its progress by the physics of its program, and what it reports. No clock.

Progress is counted in steps at the first batch size. The job chooses the batch that its own model
of itself calls best when its placement or epoch changes, and again while that teaches it something
new, as an adaptive program does. What a resize costs depends on the rules: `restarts` hold the GPUs
while nothing progresses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swell.autoscaler.goodput.batches import best_batches
from swell.autoscaler.goodput.evidence import SpeedEvidence
from swell.autoscaler.goodput.stepmodel import SpeedSample, StepModel, fit
from swell.replay.profiles import Placement, TrainedProgram


@dataclass(frozen=True, slots=True)
class ResizeCost:
    """The seconds that starting and resizing take.

    A start takes `start_s`. With `in_place` the survivors of a resize train on while newcomers
    load, and all pause for `pause_s` in the end; otherwise every change is a restart.
    """

    start_s: float
    pause_s: float
    in_place: bool = False


# Some epochs were recorded with a gradient of zero.
_NORM_MIN = 1e-30

# A program looks at its batch again after so long, as the peers' simulators do within a round.
_CHOICE_S = 30.0
# Beyond each change, so that a remainder below the resolution of the clock is not waited for twice.
_MOMENT_S = 1e-6

# What Swell's own library takes: survivors pause half a second, newcomers load for ten.
ELASTIC = ResizeCost(start_s=10.0, pause_s=0.5, in_place=True)


def restarts(seconds: float) -> ResizeCost:
    """Returns the cost where every change of the placement is a restart."""
    return ResizeCost(start_s=seconds, pause_s=seconds)


class JobRun:
    """The state of one job that runs, waits, or has ended."""

    def __init__(
        self,
        name: str,
        program: TrainedProgram,
        submitted_s: float,
        cost: ResizeCost,
        *,
        requested: int = 1,
        minimum: int = 1,
        deadline_s: float | None = None,
    ) -> None:
        self.name, self.program, self.submitted_s = name, program, submitted_s
        self.cost, self.requested = cost, requested
        self.minimum, self.deadline_s = minimum, deadline_s
        self.progress = 0.0
        self.epoch = 0
        self.placement: Placement = ()
        self.started_s: float | None = None
        self.turn_s = submitted_s  # since when it has held something, or nothing
        self.ended_s: float | None = None
        self.n_resizes = 0
        self.gpu_s = 0.0
        self.samples: dict[tuple[int, int, int], SpeedSample] = {}
        self.rates: dict[int, float] = {}  # samples a second at the first batch, by size
        self.noise = 0.0
        self.slowdown = 1.0
        self._model: StepModel | None = None
        self._loading_s = 0.0  # survivors train on at the old placement meanwhile
        self._old: Placement = ()
        self._paused_s = 0.0
        self._batch = (0, 0)
        self._choice_in_s = math.inf  # the training time until the batch is chosen anew
        self._chosen_by: tuple[StepModel | None, float, Placement] | None = None

    @property
    def size(self) -> int:
        return sum(self.placement)

    @property
    def size_max(self) -> int:
        """The largest size that the program can use."""
        return max(min(self.program.size_max, self.program.batches.max_size()), self.minimum)

    @property
    def is_done(self) -> bool:
        return self.ended_s is not None

    @property
    def is_resizing(self) -> bool:
        """Whether its last start or resize is not finished."""
        return self._loading_s > 0 or self._paused_s > 0

    @property
    def kept(self) -> int:
        """The replicas that it keeps or needs in any case: a resize is finished before the next."""
        return self.size if self.is_resizing else self.minimum

    def ideal_s(self, size: int = 1) -> float:
        """Returns the time of the whole job with at most this many devices, undisturbed."""
        known = [seconds for n, seconds in self.program.ideal_s.items() if n <= size]
        if known:
            return min(known)
        size = min(size, self.program.size_max)
        step, _ = self.program.step_times((size,), max(self.program.batches.first // size, 1))
        return self.program.total_progress * step

    def true_rates(self) -> dict[str, float]:
        """Returns the speed of one replica and of the largest size, by the undisturbed times."""
        sizes = sorted({1, self.size_max})
        return {str(size): 1.0 / max(self.ideal_s(size), 1e-9) for size in sizes}

    def left_s(self) -> float | None:
        """Returns the time left by the job's own report, or None before its first step."""
        rate = self.rates.get(self.size)
        if rate is None:
            return None
        left = self.program.total_progress - self.progress
        return left * self.program.batches.first / rate

    def model(self) -> StepModel | None:
        """Returns the job's model of its own speed, or None before its first step."""
        if self._model is None and self.samples:
            self._model = fit(list(self.samples.values()))
        return self._model

    def evidence(self, *, tells_total: bool = True) -> SpeedEvidence | None:
        """Returns what the program has reported, or None before its first step."""
        return self.shape(tells_total=tells_total) if self.samples else None

    def shape(self, *, tells_total: bool = True) -> SpeedEvidence:
        """Returns what is known of the program: progress in samples at the first batch size."""
        first, cost = self.program.batches.first, self.cost
        return SpeedEvidence(
            done=self.progress * first,
            total=self.program.total_progress * first if tells_total else None,
            noise=self.noise,
            pause_s=cost.pause_s,
            samples=tuple(self.samples.values()),
            batches=self.program.batches,
        )

    def place(self, placement: Placement, now: float, *, moved: bool = False) -> None:
        """Give the job these replicas by node; a changed placement costs a resize.

        `moved` says that replicas changed their nodes even if the counts are equal.
        """
        if placement == self.placement and not moved:
            return
        old, self.placement = self.placement, placement
        if bool(old) != bool(placement):
            self.turn_s = now
        if not placement:
            self._loading_s = self._paused_s = 0.0
            return
        if self.started_s is None:
            self.started_s = now
        if old:
            self.n_resizes += 1
        if not old or not self.cost.in_place:
            self._loading_s, self._paused_s = 0.0, self.cost.start_s
        elif sum(placement) > sum(old):
            if self._loading_s <= 0:
                self._old = old
            self._loading_s, self._paused_s = self.cost.start_s, self.cost.pause_s
        else:
            self._loading_s, self._paused_s = 0.0, self.cost.pause_s
        self._choose_batch(self._active())

    def advance(self, seconds: float, now: float) -> None:
        """Let the job run from `now` for some seconds."""
        while seconds > 1e-9 and self.placement and self.ended_s is None:
            if self._loading_s > 0:
                passed = self._train(min(seconds, self._loading_s), now)
                self._loading_s -= passed
                if self._loading_s <= 1e-9:
                    self._loading_s = 0.0
                    self._choose_batch(self._active())
            elif self._paused_s > 0:
                passed = min(seconds, self._paused_s)
                self._paused_s -= passed
            else:
                passed = self._train(seconds, now)
            self.gpu_s += passed * self.size
            seconds -= passed
            now += passed

    def next_change_s(self) -> float | None:
        """Returns the seconds until a pause or an epoch ends; None for a job without replicas."""
        if not self.placement or self.ended_s is not None:
            return None
        if self._loading_s > 0 or self._paused_s > 0:
            return (self._loading_s or self._paused_s) + _MOMENT_S
        speed, _ = self._speed(tuple(n for n in self.placement if n))
        left = float(self.program.progress_by_epoch[self.epoch] - self.progress)
        return min(max(left / speed, 0.0), self._choice_in_s) + _MOMENT_S

    def shift(self, seconds: float) -> None:
        """Move all times of the job."""
        self.submitted_s += seconds
        self.turn_s += seconds
        self.started_s = None if self.started_s is None else self.started_s + seconds
        self.ended_s = None if self.ended_s is None else self.ended_s + seconds
        self.deadline_s = None if self.deadline_s is None else self.deadline_s + seconds

    def _active(self) -> Placement:
        return self._old if self._loading_s > 0 else self.placement

    def _train(self, seconds: float, now: float) -> float:
        """Train at most to the end of the epoch; returns the seconds that took."""
        placement = tuple(n for n in self._active() if n)
        speed, sample = self._speed(placement)
        self._measure(sample)
        self.rates[sample.size] = speed * self.program.batches.first
        goal = float(self.program.progress_by_epoch[self.epoch])
        needed = (goal - self.progress) / speed
        seconds = min(seconds, self._choice_in_s)
        if needed > seconds:
            self.progress += speed * seconds
            self._choice_in_s -= seconds
            if self._choice_in_s <= _MOMENT_S:
                self._choice_in_s = math.inf
                self._choose_batch(placement)
            return seconds
        self.progress = goal
        self.epoch += 1
        if self.epoch >= self.program.n_epochs:
            self.ended_s = now + needed
        else:
            self._choose_batch(placement)
            self._choice_in_s = _CHOICE_S  # what the new epoch's gradients say is not known yet
        return max(needed, 0.0)

    def _speed(self, placement: Placement) -> tuple[float, SpeedSample]:
        """Returns the progress a second at a placement, and what a step shows of it."""
        size = sum(placement)
        atomic, passes = self._batch
        batch = size * atomic * (passes + 1)
        step_s, sync_s = self.program.step_times(placement, atomic)
        norm, variance = self.program.gradient(batch, self.epoch)
        self.noise = variance / max(norm, _NORM_MIN)
        scale = batch / self.program.batches.first
        gain = (variance + norm) / (variance / scale + norm)
        speed = gain / (step_s + passes * (step_s - sync_s)) / self.slowdown
        return speed, SpeedSample(size, len(placement), atomic, step_s, sync_s)

    def _measure(self, sample: SpeedSample) -> None:
        key = (sample.nodes, sample.size, int(sample.batch))
        if self.samples.get(key) != sample:
            self.samples[key] = sample
            self._model = None

    def _choose_batch(self, placement: Placement) -> None:
        """Choose the batch for a placement, as the program's own library does.

        The same knowledge gives the same batch; it is looked at again only after it has changed.
        """
        placement = tuple(n for n in placement if n)
        ranges, size, model = self.program.batches, sum(placement), self.model()
        if self._chosen_by == (model, self.noise, placement):
            return
        self._chosen_by, self._choice_in_s = (model, self.noise, placement), _CHOICE_S
        fixed = self.program.fixed_batch
        if model is None or fixed is not None:
            fixed = fixed or max(ranges.first, ranges.local_min * size)
            local = math.ceil(fixed / size - 1e-8)
            passes = math.ceil(local / ranges.local_max - 1e-8) - 1
            if size == 1 and fixed > ranges.first:
                passes = max(1, passes)
            atomic = math.ceil(local / (passes + 1) - 1e-8)
        else:
            best = best_batches(
                model, self.noise, ranges, np.array([size]), np.array([len(placement)])
            )
            atomic, passes = int(best.local[0]), int(best.accumulated[0])
        atomic = min(atomic, ranges.largest // (size * (passes + 1)))
        self._batch = (max(atomic, 1), passes)
