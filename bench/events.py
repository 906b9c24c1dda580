"""How late a watch sees the events of 200 jobs that an operator finds at once, over HTTPS.

What is promised is two seconds at most.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

from bench.budgets import Budget, at_most
from tests.contract.targets import embedded_server, over_https
from tests.contract.test_events_of_many_jobs import N_JOBS, sweep

LATEST_S = "the latest is late by, s"
ASKED: dict[str, Budget] = {LATEST_S: at_most(2.0)}


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        home = Path(folder)
        with embedded_server(home):
            late_s = asyncio.run(_sweep(home / "kubeconfig"))
    return {
        f"events of {N_JOBS} jobs": len(late_s),
        LATEST_S: max(late_s),
        "median, s": statistics.median(late_s),
    }


async def _sweep(kubeconfig: Path) -> list[float]:
    async with over_https(kubeconfig) as cluster:
        return await sweep(cluster)
