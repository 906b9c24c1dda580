"""Each set of metrics has a registry of its own, and costs nothing until it is made."""

from __future__ import annotations

import subprocess
import sys

from swell.runtime.metrics import Metrics


def test_each_set_of_metrics_has_its_own_registry() -> None:
    """Two programs in one process do not share their counts, nor collide over names."""
    first, second = Metrics(), Metrics()
    first.wrote("pods", "CreateObject", "done")

    assert b'resource="pods"' in first.exposition()
    assert b'resource="pods"' not in second.exposition()


def test_metrics_cost_nothing_until_made() -> None:
    """Neither prometheus-client nor aiohttp is imported for the runtime's sake alone."""
    code = (
        "import sys, swell.runtime.metrics, swell.runtime.health, swell.runtime.controller;"
        "print([m for m in ('prometheus_client', 'aiohttp') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
