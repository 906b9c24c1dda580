"""The figures of a running server: what they count, and who may read them."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.http.serving import listening
from swell.cluster.embedded.storage import Storage
from swell.runtime.clock import SystemClock
from swell.runtime.watchdog import STALL_S, watch_loop
from tests.contract.raw import Raw

NAME = "swell_event_loop_stalls_total"


def _figures(text: str) -> dict[str, float]:
    pairs = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_stalls_of_the_loop_are_counted_behind_the_token(tmp_path: Path) -> None:
    clock, rng = SystemClock(), random.Random(1)

    async def main() -> tuple[int, str, str]:
        api = new_api_server(Storage(clock.now), clock, rng)
        async with listening(api, tmp_path, clock=clock, rng=rng) as served:
            with watch_loop(served.metrics), Raw(served.kubeconfig) as raw:
                before = await asyncio.to_thread(raw.ask, "GET", "/metrics")
                time.sleep(STALL_S + 0.5)  # noqa: ASYNC251 - a loop that stands still
                await asyncio.sleep(0.5)
                after = await asyncio.to_thread(raw.ask, "GET", "/metrics")
                strange: dict[str, str | None] = {"Authorization": "Bearer wrong"}
                refused = await asyncio.to_thread(raw.ask, "GET", "/metrics", None, strange)
        return refused.code, before.body.decode(), after.body.decode()

    code, before, after = asyncio.run(main())

    assert code == 401
    assert _figures(before)[NAME] == 0
    assert _figures(after)[NAME] == 1
    assert _figures(after)["swell_event_loop_stalled_seconds_total"] > STALL_S
    assert _figures(after)["swell_store_objects"] > 0
    assert _figures(after)["process_resident_memory_bytes"] > 1 << 20
    assert f"# TYPE {NAME} counter" in after
