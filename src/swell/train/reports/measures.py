"""Measurements of steps at every member, brought together now and then."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from swell.api.report import StragglerReport
from swell.train.bus.plan import GroupPlan
from swell.train.collectives import Collectives
from swell.train.reports.noise import GradientNoise, noise_of
from swell.train.reports.reporter import Facts, slowest_of
from swell.train.state.ledger import TrainLedger

# Measurements are exchanged at every such step: one small collective in twenty steps.
EXCHANGE_STEPS = 20


class Measured(msgspec.Struct, array_like=True):
    """One member's measurements since the last exchange."""

    compute_s: float = 0.0
    n_steps: int = 0
    # Of the gradient of the last step before the exchange, where they were measured.
    own_norm2: float | None = None
    mean_norm2: float | None = None
    n_samples: int = 0


class SlowestMember:
    """Names the member that is the slowest exchange after exchange, and since how many steps."""

    def __init__(self) -> None:
        self._generation = -1
        self._index = -1
        self._n_steps = 0
        self._seconds: list[float] = []

    def is_new_group(self, generation: int) -> bool:
        """Whether the group has changed since the last call; then nothing is known of it yet."""
        is_new = generation != self._generation
        if is_new:
            self._generation, self._index, self._n_steps, self._seconds = generation, -1, 0, []
        return is_new

    def add(self, members: list[Measured], indexes: list[int]) -> StragglerReport | None:
        """Take the measurements of one exchange; the straggler there is by those of its streak."""
        seconds = [one.compute_s / max(1, one.n_steps) for one in members]
        n_steps = max((one.n_steps for one in members), default=0)
        found = slowest_of(seconds, indexes)
        if found is None or found.index != self._index or len(seconds) != len(self._seconds):
            self._n_steps, self._seconds = 0, [0.0] * len(seconds)
        if found is None:
            self._index = -1
            return None
        self._index = found.index
        self._n_steps += n_steps
        pairs = zip(self._seconds, seconds, strict=True)
        self._seconds = [total + one * n_steps for total, one in pairs]
        whole = slowest_of(self._seconds, indexes)
        return replace(whole, steps=self._n_steps) if whole is not None else None


class Measures:
    """Step times, and squared norms of gradients, of this member and then of all."""

    def __init__(self, collectives: Collectives, facts: Facts, ledger: TrainLedger) -> None:
        self._collectives, self._facts, self._ledger = collectives, facts, ledger
        # Whether learning rates follow the noise.
        self.noise_counts = False
        self._mine = Measured()
        self._sync_s: float | None = None
        self._slowest = SlowestMember()
        self._exchanged = (0, -1)  # generation and step: every member of a group agrees on both

    def wants_norms(self, step: int) -> bool:
        """Whether the gradient of the step after this one is to be measured."""
        return (step + 1) % EXCHANGE_STEPS == 0

    def add_sync(self, seconds: float) -> None:
        """Count time of this step in which the member waited for others."""
        self._sync_s = (self._sync_s or 0.0) + seconds

    def set_norms(self, own: float, mean: float, n_samples: int) -> None:
        self._mine.own_norm2, self._mine.mean_norm2 = own, mean
        self._mine.n_samples = n_samples

    def step_done(self, size: int, n_samples: int, seconds: float) -> None:
        """Count a step that is finished."""
        self._facts.rates.add(size, n_samples, seconds, self._sync_s)
        self._mine.compute_s += seconds - (self._sync_s or 0.0)
        self._mine.n_steps += 1
        self._sync_s = None

    def exchange(self, step: int, plan: GroupPlan) -> None:
        """Bring the measurements of all together, at every `EXCHANGE_STEPS`th step."""
        now = (plan.generation, step)
        if self._slowest.is_new_group(plan.generation):
            self._facts.slowest = None
            if self.noise_counts and plan.size > 1:
                self._agree_on_noise(plan)
        if step % EXCHANGE_STEPS or now == self._exchanged or plan.size < 2:
            return
        raw = self._collectives.gather(msgspec.msgpack.encode(self._mine))
        self._exchanged, self._mine = now, Measured()
        members = [msgspec.msgpack.decode(one, type=Measured) for one in raw]
        indexes = [member.index for member in plan.members]
        self._facts.slowest = self._slowest.add(members, indexes)
        norms = [(m.own_norm2, m.n_samples) for m in members if m.own_norm2 is not None]
        mean = next((m.mean_norm2 for m in members if m.mean_norm2 is not None), None)
        if mean is not None and len(norms) == len(members):
            noise = noise_of(norms, mean)
            if noise is not None:
                old = self._ledger.noise
                self._ledger.noise = old.smoothed(noise) if old else noise
        self._facts.noise = self._ledger.noise

    def _agree_on_noise(self, plan: GroupPlan) -> None:
        """Take the noise of the member whose state counts.

        When a group breaks up in an exchange, some have learned of its outcome and others have not.
        """
        noise = self._ledger.noise
        mine = (noise.norm2, noise.variance) if noise else None
        raw = self._collectives.gather(msgspec.msgpack.encode(mine))
        said = msgspec.msgpack.decode(raw[plan.source], type=tuple[float, float] | None)
        self._ledger.noise = GradientNoise(*said) if said else None
