"""Many ways of `bench training` at once, each on two processors of its own, within a limit.

A way that is named twice is measured twice at once. After `WITHIN_MINUTES` (8) all end, and what
has been measured so far is kept. It has no `run`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Body

N_PROCESSORS = 2
# A way that has to end takes its cluster down first.
CLOSE_S = 40.0
LOOK_S = 0.5
Found = dict[str, dict[str, list[Body]]]


@dataclass(frozen=True, slots=True)
class Running:
    """One way that is measured."""

    name: str
    process: subprocess.Popen[bytes]
    result: Path
    processors: tuple[int, ...]


def measure_at_once(names: Sequence[str], before: Found) -> Found:
    """All events of these ways: what is measured now takes the place of what was before."""
    waiting = list(enumerate(names))
    deadline = time.monotonic() + 60.0 * float(os.environ.get("WITHIN_MINUTES", "8"))
    processors = sorted(os.sched_getaffinity(0))
    free = [
        tuple(processors[first : first + N_PROCESSORS])
        for first in range(0, len(processors) - N_PROCESSORS + 1, N_PROCESSORS)
    ]
    running: list[Running] = []
    news: Found = {}
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        while (waiting or running) and time.monotonic() < deadline:
            while waiting and free:
                number, name = waiting.pop(0)
                result = Path(folder) / f"{number}.json"
                running.append(_start(name, result, free.pop(0)))
            time.sleep(LOOK_S)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                free.append(one.processors)
                _add(news, _read(one))
        for one in running:
            one.process.send_signal(signal.SIGTERM)
        for one in running:
            _end(one)
            _add(news, _read(one))
    adds = bool(os.environ.get("MORE"))
    return before | {
        name: merged(before.get(name, {}), measured, adds=adds) for name, measured in news.items()
    }


def merged(
    before: Mapping[str, list[Body]], measured: Mapping[str, list[Body]], *, adds: bool
) -> dict[str, list[Body]]:
    """The events of a way after a run. Those that it has not come to are as they were."""
    kept = dict(before)
    for event, news in measured.items():
        if news:
            kept[event] = [*before.get(event, []), *news] if adds else [*news]
    return kept


def _add(news: Found, more: Found) -> None:
    for name, measured in more.items():
        news[name] = merged(news.get(name, {}), measured, adds=True)


def _start(name: str, result: Path, processors: tuple[int, ...]) -> Running:
    # A file of its own, which begins empty: what is kept from before is merged in the end.
    env = {**os.environ, "WAYS": name, "RESULT": str(result), "MORE": "", "AT_ONCE": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", "training"],
        env=env,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, processors),  # noqa: PLW1509
    )
    return Running(name, process, result, processors)


def _end(one: Running) -> None:
    try:
        one.process.wait(CLOSE_S)
    except subprocess.TimeoutExpired:
        one.process.kill()
        one.process.wait()


def _read(one: Running) -> Found:
    if not one.result.exists():
        print(f"  {one.name}: nothing was measured", file=sys.stderr)
        return {}
    found: Found = json.loads(one.result.read_text())
    return found
