"""How long a running job will take yet, as a distribution. Pure, numpy only.

In this order: its own report of what is left; how long earlier runs of the same program took, of
those that took longer than it has by now; its time limit, before which it may end at any time; or
else nothing is known, and it may never end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The scenarios that are rolled forward. A prime, so that each job has them in an order of its own;
# more of them move the tenth and the ninetieth percentile by less than the reports are wrong.
SCENARIOS = 11
# By how much reported remaining times are wrong, as the standard deviation of their logarithm: on
# the public traces rates change by that much until the end, mostly by resizes and larger batches.
_REPORT_SIGMA = 0.18
# Fewer earlier runs than this say nothing.
_RUNS_MIN = 3
# The quantiles of the standard normal distribution at the middle of each scenario.
_NORMAL = np.array([-1.691, -1.097, -0.748, -0.473, -0.230, 0.0, 0.230, 0.473, 0.748, 1.097, 1.691])
_MIDDLES = (np.arange(SCENARIOS) + 0.5) / SCENARIOS


class RemainingSource(StrEnum):
    """The source of what is known of a running job's end."""

    REPORT = "report"
    HISTORY = "history"
    LIMIT = "limit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RunningFacts:
    """The age of a run, and what is known of its end; times in seconds."""

    age_s: float
    reported_left_s: float | None = None
    limit_s: float | None = None  # from its start
    earlier_runs_s: Sequence[float] = ()


def remaining(facts: RunningFacts) -> tuple[RemainingSource, Floats]:
    """Returns the remaining time in each scenario, from short to long; inf where none is known."""
    limit_left = np.inf if facts.limit_s is None else max(facts.limit_s - facts.age_s, 0.0)
    if facts.reported_left_s is not None:
        found = facts.reported_left_s * np.exp(_REPORT_SIGMA * _NORMAL)
        return RemainingSource.REPORT, np.minimum(found, limit_left)
    longer = [one - facts.age_s for one in facts.earlier_runs_s if one > facts.age_s]
    if len(longer) >= _RUNS_MIN:
        found = np.quantile(np.array(longer), _MIDDLES)
        return RemainingSource.HISTORY, np.minimum(found, limit_left)
    if np.isfinite(limit_left):
        return RemainingSource.LIMIT, limit_left * _MIDDLES
    return RemainingSource.UNKNOWN, np.full(SCENARIOS, np.inf)


def shuffled(quantiles: Floats, seed: int) -> Floats:
    """Returns the scenarios in an order of this job's own: jobs do not all run long together."""
    step = 1 + seed % (SCENARIOS - 1)
    return quantiles[(np.arange(SCENARIOS) * step + seed // SCENARIOS) % SCENARIOS]
