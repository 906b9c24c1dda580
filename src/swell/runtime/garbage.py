"""Garbage collections of a server: the young often, all of them when nobody waits.

A collection of everything looks at every object of the process: with a large cluster in its caches
that takes some tenths of a second, in which no request is answered, and the interpreter starts one
just when much is going on. Hardly anything here becomes garbage in cycles once it is old. So the
oldest generation is left alone until the process has quiet seconds, or, where it never has one,
until so much has been added that it must be looked at.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# New containers until the youngest are looked at, and how often that is until the next ones are:
# 1 ms and 10 ms of work.
YOUNG, MIDDLE = 10_000, 10
NEVER = 1 << 30
LOOK_S = 5.0
# Of a processor, used or waited for since the last look: one client that asks now and then is more.
QUIET_SHARE = 0.03
# In quiet times, collections of the middle generation until everything is looked at.
DUE_AFTER = 5
PAUSE_S = 60.0
# In busy times: how long it can wait, and how much memory may be added before.
BUSY_S_MAX = 3_600.0
GROWTH_BYTES_MAX = 512 << 20


class Collections:
    """Decides when everything is looked at. It has to be told of the time and the process."""

    def __init__(self, now: float, wanted_s: float, n_bytes: int) -> None:
        self._looked_at, self._wanted_s = now, wanted_s
        self._collected_at, self._n_bytes = now, n_bytes

    def is_due(self, now: float, wanted_s: float, n_bytes: int, n_middle: int) -> bool:
        """Whether to look at everything now.

        `n_middle` counts collections of the middle generation since the last one of everything.
        """
        used, passed = wanted_s - self._wanted_s, now - self._looked_at
        self._looked_at, self._wanted_s = now, wanted_s
        since = now - self._collected_at
        if n_middle == 0:
            return False
        if n_bytes > 2 * self._n_bytes + GROWTH_BYTES_MAX or since > BUSY_S_MAX:
            return True
        return since > PAUSE_S and n_middle >= DUE_AFTER and used < QUIET_SHARE * passed

    def collected(self, now: float, wanted_s: float, n_bytes: int) -> None:
        self._looked_at, self._wanted_s = now, wanted_s
        self._collected_at, self._n_bytes = now, n_bytes


def collect_all() -> None:
    """Look at everything, what was exempt from collections included, and exempt what is left."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def paced_collections() -> Iterator[None]:
    """Collect garbage this way while the running loop serves. Must be entered on its thread."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    gc.freeze()  # what is there now is served for ever
    loop = asyncio.get_running_loop()
    pace = Collections(time.monotonic(), _wanted_s(), _resident_bytes())
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        n_middle, n_bytes = gc.get_count()[2], _resident_bytes()
        if pace.is_due(time.monotonic(), _wanted_s(), n_bytes, n_middle):
            collect_all()
            pace.collected(time.monotonic(), _wanted_s(), _resident_bytes())
        timer = loop.call_later(LOOK_S, look)

    timer = loop.call_later(LOOK_S, look)
    try:
        yield
    finally:
        timer.cancel()
        gc.set_threshold(*before)


def _wanted_s() -> float:
    """The processor time of the loop's thread so far, with the time that it waited for one."""
    try:
        used_ns, waited_ns, _ = Path("/proc/self/schedstat").read_bytes().split()
    except (OSError, ValueError):
        return time.process_time()
    return (int(used_ns) + int(waited_ns)) / 1e9


def _resident_bytes() -> int:
    """The memory of this process; 0 where it cannot be known, so that only the time counts."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
