"""Bound pods a second with 5,000 nodes and 10,000 pods: ours beside the bare bind ceiling.

As `bench.live`, which compares with other schedulers, too, in a smaller cluster.
"""

from __future__ import annotations

from bench.live import CONTENDERS, Size, asked, compare

LARGE = Size(n_nodes=5000, n_pods=10_000, n_rounds=7, n_rounds_of_others=0)
ASKED = asked(of_bare=0.95, cpu_ms=0.4)


def run() -> dict[str, object]:
    """All figures; or why there are none."""
    return compare(LARGE, [one.name for one in CONTENDERS if one.is_ours])
