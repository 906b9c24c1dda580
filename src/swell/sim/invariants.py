"""What must hold, checked on every commit, and what must come about once the faults are over.

Truth is the store's commit log, which knows who wrote. Checks only look; the judge keeps what
they found and counts how often they were asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from swell.cluster.embedded.storage import Commit

VIOLATIONS_MAX = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach: which rule, what happened, when."""

    invariant: str
    message: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at_s:.3f} s: {self.message}"


class SafetyCheck(Protocol):
    """A rule that no commit may break. An instance serves one run and may remember commits."""

    @property
    def name(self) -> str: ...

    def on_commit(self, commit: Commit) -> Iterable[str]:
        """What is wrong with this commit, given the earlier ones."""
        ...


class LivenessCheck(Protocol):
    """A state that must be reached when nothing goes wrong any more."""

    @property
    def name(self) -> str: ...

    def missing(self) -> Iterable[str]:
        """What is not yet as it should be."""
        ...


class InvariantChecker:
    """Puts every commit before the safety checks and, at the end, the world before the others."""

    def __init__(
        self,
        safety: Sequence[SafetyCheck],
        liveness: Sequence[LivenessCheck],
        monotonic: Callable[[], float],
    ) -> None:
        self._safety = safety
        self._liveness = liveness
        self._monotonic = monotonic
        self._broken = asyncio.Event()
        self.evaluations = 0
        self.violations: list[Violation] = []

    def on_commit(self, commit: Commit) -> None:
        for check in self._safety:
            self.evaluations += 1
            for message in check.on_commit(commit):
                self.report(check.name, message)

    def report(self, invariant: str, message: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(invariant, message, self._monotonic()))
        self._broken.set()

    def missing(self) -> list[tuple[str, str]]:
        """What liveness still lacks: (rule, what)."""
        self.evaluations += len(self._liveness)
        return [(check.name, what) for check in self._liveness for what in check.missing()]

    async def wait_broken(self, within_s: float) -> bool:
        """Whether anything is violated, now or within a time: a run may end early then."""
        try:
            async with asyncio.timeout(within_s):
                await self._broken.wait()
        except TimeoutError:
            return False
        return True
