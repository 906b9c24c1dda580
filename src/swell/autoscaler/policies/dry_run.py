"""The order of roles in a round: by fulfillment, exactly, and then as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

# Two different fractions with denominators below this differ by more than a double's precision,
# and equal ones divide to equal doubles: so sorting the quotients is exact.
_SPAN_EXACT = 2**26


class Ranking:
    """Orders positions of fixed roles. Ties keep the order in which the roles were given."""

    def __init__(self, minimums: Sequence[int], maximums: Sequence[int]) -> None:
        self._minimums = list(minimums)
        self._spans = [high - low for low, high in zip(minimums, maximums, strict=True)]
        self._is_exact = max(self._spans, default=0) < _SPAN_EXACT
        if self._is_exact:
            self._spans_array = np.array(self._spans, np.int64)

    def order(self, positions: Sequence[int], planned: Sequence[int]) -> list[int]:
        """These positions, ascending, by the fulfillment that the planned sizes mean."""
        over = [planned[at] - self._minimums[at] for at in positions]
        if not self._is_exact or max(map(abs, over), default=0) >= 2**62:
            return self._order_slowly(positions, over)
        spans = self._spans_array[positions]
        # Sizes may lie outside of their bounds: whole spans and the rest are compared apart.
        whole, rest = np.divmod(np.array(over, np.int64), spans)
        ranked = np.lexsort((rest / spans, whole))
        return [positions[at] for at in ranked.tolist()]

    def _order_slowly(self, positions: Sequence[int], over: Sequence[int]) -> list[int]:
        keys = {at: Fraction(n, self._spans[at]) for at, n in zip(positions, over, strict=True)}
        return sorted(positions, key=keys.__getitem__)
