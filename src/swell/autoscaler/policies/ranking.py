"""The order of roles by fulfillment: how far a size is from the minimum to the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

# Two different fractions with denominators below this differ by more than the precision of a
# double, and equal ones divide to equal doubles: so sorting the quotients is exact.
_SPAN_EXACT = 2**26
# Sizes at least this far from the minimum would overflow the 64-bit integers of numpy.
_SIZE_EXACT = 2**62


class Bounded(Protocol):
    """Anything with a smallest and a largest size."""

    @property
    def minimum(self) -> int: ...

    @property
    def maximum(self) -> int: ...


class Ranking:
    """Orders positions of fixed roles by fulfillment, exactly. Ties keep the given order."""

    def __init__(self, roles: Sequence[Bounded]) -> None:
        self._minimums = [role.minimum for role in roles]
        self._spans = [role.maximum - role.minimum for role in roles]
        self._is_exact = max(self._spans, default=0) < _SPAN_EXACT
        if self._is_exact:
            self._spans_array = np.array(self._spans, np.int64)

    def order(self, positions: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Returns these positions, the least fulfilled by these sizes first."""
        over = [sizes[at] - self._minimums[at] for at in positions]
        if not self._is_exact or max(map(abs, over), default=0) >= _SIZE_EXACT:
            return self._order_slowly(positions, over)
        spans = self._spans_array[positions]
        # Sizes may lie outside their bounds: whole spans and the rest are compared separately,
        # because a large quotient would lose the precision of the rest.
        whole, rest = np.divmod(np.array(over, np.int64), spans)
        ranked = np.lexsort((rest / spans, whole))
        return [positions[at] for at in ranked.tolist()]

    def _order_slowly(self, positions: Sequence[int], over: Sequence[int]) -> list[int]:
        keys = {at: Fraction(n, self._spans[at]) for at, n in zip(positions, over, strict=True)}
        return sorted(positions, key=keys.__getitem__)
