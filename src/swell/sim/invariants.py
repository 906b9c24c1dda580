"""Safety checks on every commit, and liveness checks once the faults are over.

The commit log of the store, which knows the author of every write, is the truth. Checks only read;
the checker keeps their violations and counts their evaluations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from swell.cluster.embedded.storage import Commit

# A run ends at its first violation; more of the same instant explain it no better.
VIOLATIONS_MAX = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation: the rule, what happened, and when."""

    invariant: str
    message: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at_s:.3f} s: {self.message}"


class SafetyCheck(Protocol):
    """A rule that no commit may break. An instance belongs to one run and may keep state."""

    @property
    def name(self) -> str: ...

    def on_commit(self, commit: Commit) -> Iterable[str]:
        """Returns what is wrong with this commit, given the earlier ones."""
        ...


class LivenessCheck(Protocol):
    """A state that must be reached after the faults have ended."""

    @property
    def name(self) -> str: ...

    def missing(self) -> Iterable[str]:
        """Returns what is still missing."""
        ...


class InvariantChecker:
    """Runs the safety checks on every commit, and the liveness checks at the end."""

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
        """Returns what the liveness checks miss, as pairs of rule and message."""
        self.evaluations += len(self._liveness)
        return [(check.name, what) for check in self._liveness for what in check.missing()]

    async def wait_broken(self, within_s: float) -> bool:
        """Wait for a violation, up to a time. Returns whether there was one."""
        try:
            async with asyncio.timeout(within_s):
                await self._broken.wait()
        except TimeoutError:
            return False
        return True
