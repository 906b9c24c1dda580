"""How long to wait before trying again: exponential, capped, jittered by given randomness."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

# 2.0 ** 60 is beyond any cap; a larger exponent would only cost time to compute.
_EXPONENT_MAX = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of base, 2 base, 4 base … up to the cap, each shortened by up to half by chance.

    The jitter keeps clients that failed together from coming back together.
    """

    base_s: float
    cap_s: float

    def full_s(self, attempt: int) -> float:
        """The wait after the `attempt`-th failure in a row, counted from 1, without jitter."""
        return min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, _EXPONENT_MAX))

    def delay_s(self, attempt: int, random: Random) -> float:
        return self.full_s(attempt) * (0.5 + random.random() / 2)
