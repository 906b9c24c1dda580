"""The shared profile of a program: what all its runs have measured. No clock, no client.

A job whose program has run before need not be tried at every size: measurements of other runs count
for it, it has no bound from its own, and before its first report the noise and the amount of work
of others stand in. A job's own report always comes first.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from swell.autoscaler.goodput.evidence import SpeedEvidence
from swell.autoscaler.goodput.stepmodel import SpeedSample, StepModel, fit

# Shapes kept of a program; further ones replace those that were measured longest ago.
_SAMPLES_MAX = 64
# The noise is kept for so many parts of a run: it grows by orders of magnitude over training.
_NOISE_PARTS = 16
# Programs kept; those that reported longest ago are forgotten first.
_PROGRAMS_MAX = 4096
# A step time that differs by less says nothing new, and would have the model fitted again.
_NEW_ABOVE = 0.02


@dataclass(slots=True)
class SharedProfile:
    """Measurements of one program: step times by shape, noise by progress, and the whole work."""

    samples: dict[tuple[int, int, int], SpeedSample] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    noise: dict[int, float] = field(default_factory=dict)
    total: float | None = None
    last: SpeedEvidence | None = None  # of whichever run reported last
    model: StepModel | None = None

    def learn(self, evidence: SpeedEvidence) -> None:
        """Add what a run has reported."""
        for one in evidence.samples:
            key = (one.nodes, one.size, int(one.batch))
            known = self.samples.get(key)
            if known is not None and abs(known.step_s - one.step_s) <= _NEW_ABOVE * one.step_s:
                continue
            self.samples.pop(key, None)
            self.samples[key] = one
            self.model = None
        while len(self.samples) > _SAMPLES_MAX:
            del self.samples[next(iter(self.samples))]
        for size, rate in evidence.rates[-_SAMPLES_MAX:]:
            self.rates[size] = rate
        self.last = evidence
        if evidence.total is not None:
            self.total = evidence.total
        if evidence.noise:
            self.noise[_part(evidence.done, evidence.total)] = evidence.noise

    def evidence(self, own: SpeedEvidence | None, shape: SpeedEvidence) -> SpeedEvidence | None:
        """Returns the evidence of a run, with what others have measured. None if none has.

        `shape` has what is known of the run without a report: its batches, and a resize's pause.
        """
        if not self.samples and not self.rates:
            return own
        base = shape if own is None else own
        if self.model is None and self.samples:
            self.model = fit(tuple(self.samples.values()))
        total = self.total if base.total is None and own is None else base.total
        last = self.last or base
        return replace(
            base,
            total=total,
            batches=base.batches or last.batches,
            global_batch=base.global_batch or last.global_batch,
            pause_s=last.pause_s if base.pause_s is None else base.pause_s,
            rates=tuple(sorted({**self.rates, **dict(base.rates)}.items())),
            noise=base.noise or self._noise_at(base.done, total),
            samples=(),
            model=self.model,
            is_shared=True,
        )

    def _noise_at(self, done: float, total: float | None) -> float | None:
        if not self.noise:
            return None
        part = _part(done, total)
        return self.noise[min(self.noise, key=lambda one: (abs(one - part), one))]


class SharedProfiles:
    """The profiles of all programs, by any key that runs of one program have in common."""

    def __init__(self) -> None:
        self._profiles: dict[Hashable, SharedProfile] = {}

    def known(self, program: Hashable) -> SharedProfile | None:
        """Returns the profile of a program that has reported, without changing anything."""
        return self._profiles.get(program)

    def of(self, program: Hashable) -> SharedProfile:
        """Returns the profile of a program, which may be empty."""
        found = self._profiles.pop(program, None) or SharedProfile()
        self._profiles[program] = found
        while len(self._profiles) > _PROGRAMS_MAX:
            del self._profiles[next(iter(self._profiles))]
        return found


def _part(done: float, total: float | None) -> int:
    if not total:
        return 0
    return min(int(_NOISE_PARTS * done / total), _NOISE_PARTS - 1)
