"""The one formula for exponential back-off, shared by every layer: doubling, capped, jittered.

It is pure and stands below all other packages, because decisions that must not know the runtime
(the autoscaler's, the node's) use it as well as the controllers and clients do.
"""

from __future__ import annotations

from dataclasses import dataclass

# Float exponentiation raises OverflowError from 2.0 ** 1024 on. A base of a millisecond doubled
# 60 times is longer than any cap in use, so a larger exponent would change no delay.
_DOUBLINGS_MAX = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of base, 2 * base, 4 * base and so on, never longer than the cap."""

    base_s: float
    cap_s: float

    def full_s(self, n_failures: int) -> float:
        """Returns the delay after this many failures in a row, without jitter: none after none."""
        if n_failures <= 0:
            return 0.0
        return min(self.cap_s, self.base_s * 2.0 ** min(n_failures - 1, _DOUBLINGS_MAX))

    def jittered_s(self, n_failures: int, chance: float) -> float:
        """Returns the delay shortened by up to half; `chance` is drawn from [0, 1).

        Clients that failed together would otherwise all return at the same moment.
        """
        return self.full_s(n_failures) * (0.5 + chance / 2)
