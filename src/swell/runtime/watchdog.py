"""Notices an event loop that stands still, and logs where its thread was at that time.

The loop sets a beat every tenth of a second; a thread looks at it as often. Code between the beats
pays nothing. A process that was suspended, or did not get a processor, is no stall of the loop: the
thread itself was late then, and the process has used next to no processor time meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from swell.runtime.logs import get_logger

log = get_logger(__name__)

BEAT_S = 0.1
STALL_S = 0.5  # a user notices half a second; leases and heartbeats have several
# Between two logged stalls. Those in between are counted only.
LOG_EVERY_S = 10.0
STACK_FRAMES_MAX = 30


class StallMeter(Protocol):
    """Counts stalls."""

    def loop_stalled(self, seconds: float) -> None: ...


class LoopWatchdog:
    """The thread that watches the loop of the thread which makes it."""

    def __init__(self, meter: StallMeter | None = None, stall_s: float = STALL_S) -> None:
        self._meter = meter
        self._stall_s = stall_s
        self._loop_thread = threading.get_ident()
        self._beat_at = time.monotonic()
        self._gap_s = 0.0  # the last gap between beats that was too long, until it is reported
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        self._logged_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self.n_stalls = 0
        self.n_unlogged = 0

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; it takes no longer than a beat."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        now = time.monotonic()
        gap_s = now - self._beat_at
        if gap_s > self._stall_s + BEAT_S:
            self._gap_s = gap_s  # before the beat: the thread takes it when it sees the beat
        self._beat_at = now
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _watch(self) -> None:
        looked_at, used_s = time.monotonic(), time.process_time()
        while not self._stop.wait(BEAT_S):
            now, used_now_s = time.monotonic(), time.process_time()
            late_s = now - looked_at - BEAT_S
            # C code that keeps the interpreter to itself stops this thread, too, but burns time.
            is_suspended = late_s > self._stall_s and used_now_s - used_s < late_s / 10
            if is_suspended:
                self._gap_s = 0.0
            elif now - self._beat_at > self._stall_s:
                self._follow(self._beat_at)
            elif self._gap_s:
                self._report(self._gap_s, "not known: the interpreter itself stood still")
            looked_at, used_s = time.monotonic(), time.process_time()

    def _follow(self, beat_at: float) -> None:
        """Note where the loop is, and how long it stays there."""
        stack = _stack_of(sys._current_frames().get(self._loop_thread))  # noqa: SLF001
        while self._beat_at == beat_at and not self._stop.wait(BEAT_S / 2):
            pass
        self._report(time.monotonic() - beat_at, stack)

    def _report(self, stalled_s: float, stack: str) -> None:
        self._gap_s = 0.0
        self.n_stalls += 1
        if self._meter is not None:
            self._meter.loop_stalled(stalled_s)
        now = time.monotonic()
        if now - self._logged_at < LOG_EVERY_S:
            self.n_unlogged += 1
            return
        more = {"not_logged_since": self.n_unlogged} if self.n_unlogged else {}
        log.warning("event loop stalled", seconds=round(stalled_s, 2), stack=stack, **more)
        self._logged_at, self.n_unlogged = now, 0


def _stack_of(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame, STACK_FRAMES_MAX)) if frame else ""


@contextmanager
def watch_loop(meter: StallMeter | None = None) -> Iterator[LoopWatchdog]:
    """Watch the running loop. Must be entered on its thread."""
    watchdog = LoopWatchdog(meter)
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()
