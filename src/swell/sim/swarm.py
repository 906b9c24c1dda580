"""How often each fault happens in a run: drawn per seed, so that runs differ in kind.

Half of the seeds mix many faults at moderate rates and leave some out. The other half take two to
four kinds only, often: rare bugs need particular faults to overlap, and a mixture seldom repeats
the same pair within one run.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.sim.chance import Chance
from swell.sim.plan import FaultKind

# Chance per call (or per event, or per tick of an actor) at the height of a fault's season.
RATES_MAX: Mapping[str, float] = {
    FaultKind.CONFLICT: 0.10,
    FaultKind.SERVER_ERROR: 0.10,
    FaultKind.THROTTLED: 0.08,
    FaultKind.UNREACHABLE: 0.08,
    FaultKind.TIMEOUT_BEFORE: 0.06,
    FaultKind.TIMEOUT_AFTER: 0.12,
    FaultKind.APPLIED_LATE: 0.06,
    FaultKind.SLOW: 0.10,
    FaultKind.REFUSED: 0.02,
    FaultKind.TRUNCATED: 0.06,
    FaultKind.GONE: 0.06,
    FaultKind.CUT: 0.06,
    FaultKind.DELAYED: 0.15,
    FaultKind.DUPLICATED: 0.10,
    FaultKind.SKIPPED: 0.10,
    FaultKind.STALE_LIST: 0.60,
    FaultKind.OUT_OF_STEP: 0.05,
    FaultKind.BOOKMARK_ONLY: 0.20,
    FaultKind.CRASH_BEFORE: 0.06,
    FaultKind.CRASH_AFTER: 0.06,
    FaultKind.CRASH_LOOP: 0.01,
    FaultKind.PAUSED: 0.03,
}

# No season of a fault is so hard that nothing gets done: calls fail less often than this in sum.
_TOTAL_MAX = 0.6


def draw_rates(chance: Chance, rates_max: Mapping[str, float] = RATES_MAX) -> dict[str, float]:
    """The rates of one seed."""
    kinds = list(rates_max)
    if chance.uniform("swarm") < 0.5:
        rates = {
            kind: rates_max[kind] * chance.uniform("rate", kind)
            for kind in kinds
            if chance.uniform("present", kind) < 0.6
        }
    else:
        n_kinds = chance.integer(2, 4, "focus")
        kinds.sort(key=lambda kind: chance.uniform("order", kind))
        rates = {kind: min(0.5, rates_max[kind] * 2) for kind in kinds[:n_kinds]}
    scale = min(1.0, _TOTAL_MAX / max(sum(rates.values()), 1e-9))
    return {kind: rate * scale for kind, rate in rates.items()}
