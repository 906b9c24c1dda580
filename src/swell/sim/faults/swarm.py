"""The rate of each kind of fault in a run, drawn by seed: swarm testing.

Rare bugs need particular faults to overlap, which a mixture of all kinds seldom produces. So some
seeds mix many faults at moderate rates, some use only two to four kinds, but often, and some use
kinds that are known to be dangerous together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swell.sim.chance import Chance
from swell.sim.faults.plan import FaultKind

# The highest probability per call (or per event, or per tick of an actor).
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
    FaultKind.GONE: 0.08,
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

# Answers lost while views lag and pods vanish; views that lag and fall back while names are used
# again; crashes with lagging views; leaders that stand still.
OVERLAPS: Sequence[Mapping[str, float]] = (
    {
        FaultKind.TIMEOUT_AFTER: 0.35,
        FaultKind.DELAYED: 0.25,
        FaultKind.OUT_OF_STEP: 0.05,
        FaultKind.POD_DELETED: 0.20,
    },
    {
        FaultKind.GONE: 0.15,
        FaultKind.STALE_LIST: 0.70,
        FaultKind.DELAYED: 0.15,
        FaultKind.POD_DELETED: 0.10,
    },
    {
        FaultKind.CRASH_BEFORE: 0.08,
        FaultKind.CRASH_AFTER: 0.08,
        FaultKind.OUT_OF_STEP: 0.10,
        FaultKind.SKIPPED: 0.15,
    },
    {FaultKind.PAUSED: 0.08, FaultKind.KILLED: 0.03, FaultKind.DELAYED: 0.10},
)

# The sum of all rates is cut to this, so that controllers still make progress.
_TOTAL_MAX = 0.6
# Faults of calls that are rare and do no work by themselves; their rates are not cut.
_OWN_SITES = frozenset({FaultKind.STALE_LIST, FaultKind.BOOKMARK_ONLY})


def draw_rates(chance: Chance, rates_max: Mapping[str, float] = RATES_MAX) -> dict[str, float]:
    """Returns the rates of one seed."""
    # 40 % mixtures, 25 % with a focus, 35 % overlaps.
    mode = chance.uniform("swarm")
    if mode < 0.4:
        return _scaled(_mixture(chance, rates_max))
    if mode < 0.65:
        return _scaled(_focus(chance, rates_max))
    overlap = chance.pick(OVERLAPS, "overlap")
    return {kind: rate for kind, rate in overlap.items() if kind in rates_max}


def _mixture(chance: Chance, rates_max: Mapping[str, float]) -> dict[str, float]:
    return {
        kind: highest * chance.uniform("rate", kind)
        for kind, highest in rates_max.items()
        if chance.uniform("present", kind) < 0.6
    }


def _focus(chance: Chance, rates_max: Mapping[str, float]) -> dict[str, float]:
    kinds = sorted(rates_max, key=lambda kind: chance.uniform("order", kind))
    n_kinds = chance.integer(2, 4, "focus")
    return {kind: min(0.5, rates_max[kind] * 2) for kind in kinds[:n_kinds]}


def _scaled(rates: dict[str, float]) -> dict[str, float]:
    """Cut the sum of the rates; faults of lists and of opening a watch do not count."""
    total = sum(rate for kind, rate in rates.items() if kind not in _OWN_SITES)
    scale = min(1.0, _TOTAL_MAX / max(total, 1e-9))
    return {k: rate if k in _OWN_SITES else rate * scale for k, rate in rates.items()}
