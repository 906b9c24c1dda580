"""Many ways of `bench training` at once, each on two processors of its own, within a limit.

A way that is named twice is measured twice at once. After `WITHIN_MINUTES` (8) all end. What has
been measured so far is kept all the time, so that nothing is lost when this program is killed. It
has no `run`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Body

N_PROCESSORS = 2
# A way that has to end takes its cluster down first. All have this long together.
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


def measure_at_once(
    names: Sequence[str], before: Found, keep: Callable[[Found], None] = lambda _: None
) -> Found:
    """All events of these ways: what is measured now takes the place of what was before.

    `keep` is called with everything so far whenever there is something new.
    """
    waiting = list(enumerate(names))
    deadline = time.monotonic() + 60.0 * float(os.environ.get("WITHIN_MINUTES", "8"))
    processors = sorted(os.sched_getaffinity(0))
    free = [
        tuple(processors[first : first + N_PROCESSORS])
        for first in range(0, len(processors) - N_PROCESSORS + 1, N_PROCESSORS)
    ]
    running: list[Running] = []
    started: list[Running] = []
    found: Found = {}
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:

        def look() -> None:
            nonlocal found
            news = _so_far(before, started)
            if news != found:
                found = news
                keep(found)

        while (waiting or running) and time.monotonic() < deadline:
            while waiting and free:
                number, name = waiting.pop(0)
                running.append(_start(name, Path(folder) / f"{number}.json", free.pop(0)))
                started.append(running[-1])
            time.sleep(LOOK_S)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                free.append(one.processors)
                if one.process.returncode:
                    print(f"  {one.name}: broke off", file=sys.stderr)
            look()
        _end(running)
        look()
    for name in sorted({name for name in names if name not in found}):
        print(f"  {name}: nothing was measured", file=sys.stderr)
    return found


def add_events(news: Found, more: Found) -> None:
    """Add the events of another run of the same day."""
    for name, measured in more.items():
        news[name] = merged(news.get(name, {}), measured, adds=True)


def _so_far(before: Found, started: Sequence[Running]) -> Found:
    news: Found = {}
    for one in started:
        add_events(news, _read(one))
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


def _end(running: Sequence[Running]) -> None:
    for one in running:
        one.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + CLOSE_S
    for one in running:
        try:
            one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def _read(one: Running) -> Found:
    """What a way has measured; its file is replaced as a whole."""
    if not one.result.exists():
        return {}
    found: Found = json.loads(one.result.read_text())
    return found
