"""How late a watch sees the events of 200 jobs that an operator finds at once, over HTTPS.

What is promised is two seconds at most.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

from tests.contract.targets import embedded_server, over_https
from tests.contract.test_events_of_many_jobs import N_JOBS, sweep

PROMISED_S = 2.0


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        home = Path(folder)
        with embedded_server(home):
            late_s = asyncio.run(_sweep(home / "kubeconfig"))
    latest_s = max(late_s)
    return {
        f"events of {N_JOBS} jobs": len(late_s),
        "the latest is late by, s": latest_s,
        "ratio: the latest / what is promised": latest_s / PROMISED_S,
        "median, s": statistics.median(late_s),
    }


async def _sweep(kubeconfig: Path) -> list[float]:
    async with over_https(kubeconfig) as cluster:
        return await sweep(cluster)
