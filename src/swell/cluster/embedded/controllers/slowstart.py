"""Many creates in steps of growing size. Pure.

What is wrong with the first pod is mostly wrong with all of them: a plan stops at the first step
that fails, so a quota or a bad template costs one refused request and not five hundred.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.runtime.plan import Action, Together

FIRST_STEP = 1
# In one pass; a larger difference takes several.
BURST_MAX = 500


def slow_start(actions: Sequence[Action]) -> tuple[Together, ...]:
    """Steps of 1, 2, 4, 8 … actions."""
    steps: list[Together] = []
    size, begin = FIRST_STEP, 0
    while begin < len(actions):
        steps.append(Together(tuple(actions[begin : begin + size])))
        begin += size
        size *= 2
    return tuple(steps)
