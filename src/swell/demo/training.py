"""The steps that a member of the demo's job has printed, and the pauses between them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_STEP = re.compile(r"^step (\d+): loss (\S+), (\d+) members, at (\S+)$", re.MULTILINE)
_END = re.compile(r"^trained: .* (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TrainedStep:
    """One step: its number, the loss, the size of the group, and when it was done."""

    number: int
    loss: float
    size: int
    at: float


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A change of the group, and for how long this member did no step because of it."""

    at: float
    old: int
    new: int
    pause_s: float


def steps_of(log: str) -> list[TrainedStep]:
    """The steps of a member's log; a last line that is not complete yet is none."""
    return [
        TrainedStep(int(n), float(loss), int(k), float(at)) for n, loss, k, at in _STEP.findall(log)
    ]


def length_of_weights(log: str) -> float | None:
    """The last line's figure, by which two trainings are compared."""
    found = _END.search(log)
    return float(found[1]) if found else None


def changes_of(steps: Sequence[TrainedStep]) -> list[GroupChange]:
    """Every change of the size between two steps that follow each other."""
    return [
        GroupChange(after.at, before.size, after.size, after.at - before.at)
        for before, after in pairwise(steps)
        if before.size != after.size
    ]


@dataclass(frozen=True, slots=True)
class StepGap:
    """The longest time without a step: the numbers of the steps around it."""

    before: int
    after: int
    seconds: float

    @property
    def n_lost(self) -> int:
        """How many steps were done once more after it."""
        return self.before + 1 - self.after


def longest_gap(steps: Sequence[TrainedStep]) -> StepGap | None:
    """Returns the longest gap between two steps that follow each other; None without two."""
    gaps = [StepGap(one.number, two.number, two.at - one.at) for one, two in pairwise(steps)]
    return max(gaps, key=lambda gap: gap.seconds, default=None)
