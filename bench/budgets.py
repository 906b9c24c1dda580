"""What is asked of a figure, and how far it is from that. No measurement: `ASKED` of a module.

A module that measures may have a table `ASKED`, from the names of its figures to budgets. The ratio
of a figure is at least 1 where it meets its budget, whichever way round that is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound of a figure: from below where more is better, else from above."""

    bound: float
    is_least: bool

    def ratio(self, value: float) -> float:
        """Return how many times better a figure is than the bound; 1 is just met."""
        if value == self.bound:
            return 1.0
        above, below = (value, self.bound) if self.is_least else (self.bound, value)
        return above / below if below else float("inf")

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.bound:,g}"


def at_least(bound: float) -> Budget:
    """Return the budget of a figure of which more is better."""
    return Budget(bound, is_least=True)


def at_most(bound: float) -> Budget:
    """Return the budget of a figure of which less is better."""
    return Budget(bound, is_least=False)
