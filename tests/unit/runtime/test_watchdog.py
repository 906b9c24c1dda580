"""An event loop that stands still is noticed, with the place where it stood."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from swell.runtime import watchdog as watchdogs
from swell.runtime.metrics import Metrics
from swell.runtime.watchdog import LoopWatchdog, watch_loop


def block_the_loop(seconds: float) -> None:
    """Stands for a decision that takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def logged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []

    class Log:
        def warning(self, event: str, **fields: object) -> None:
            found.append({"event": event, **fields})

    monkeypatch.setattr(watchdogs, "log", Log())
    return found


def test_stall_is_logged_with_its_stack_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack names the function that blocked; the metric has number and length."""
    lines, metrics = logged(monkeypatch), Metrics()

    async def life() -> None:
        with watch_loop(metrics):
            await asyncio.sleep(0.2)
            block_the_loop(0.9)
            await asyncio.sleep(0.2)

    asyncio.run(life())

    (line,) = lines
    assert line["event"] == "event loop stalled"
    assert "block_the_loop" in str(line["stack"])
    assert float(str(line["seconds"])) > 0.7
    shown = metrics.exposition().decode()
    assert "swell_event_loop_stalls_total 1.0" in shown
    assert "swell_event_loop_stalled_seconds_total" in shown


def test_later_stalls_are_counted_and_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that stalls all the time does not fill the log."""
    lines = logged(monkeypatch)
    found: list[LoopWatchdog] = []

    async def life() -> None:
        with watch_loop() as watchdog:
            found.append(watchdog)
            for _ in range(2):
                block_the_loop(0.8)
                await asyncio.sleep(0.3)

    asyncio.run(life())

    assert len(lines) == 1
    assert (found[0].n_stalls, found[0].n_unlogged) == (2, 1)


def test_stall_of_the_whole_interpreter_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code that lets no other thread run is noticed when it is over."""
    lines = logged(monkeypatch)

    async def life() -> None:
        with watch_loop():
            await asyncio.sleep(0.2)
            # One call that takes seconds, without a switch of threads.
            re.match("(a+)+$", "a" * 25 + "b")
            await asyncio.sleep(0.3)

    asyncio.run(life())

    assert len(lines) == 1


def test_waiting_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop with nothing to do beats."""
    lines = logged(monkeypatch)

    async def life() -> None:
        with watch_loop():
            await asyncio.sleep(1.0)

    asyncio.run(life())

    assert lines == []
