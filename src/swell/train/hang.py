"""Programs that hang: their stacks in the log, and an end that the operator can tell from others.

Anybody gets the stacks of all threads by SIGUSR1. Where a role has `hangSeconds`, the program also
watches itself: without a step for so long, while it trains, it prints its stacks and exits with
`HANG_EXIT_CODE`. Its peers wait for it in the same step, so they do the same: the stacks of all
ranks are in their logs before the job restarts. Loading, compiling, saving, and waiting for a group
are no hang, and neither is the first step, in which much is compiled.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from swell.api.injection import HANG_EXIT_CODE, HANG_VARIABLE

# From the stacks to the exit: peers of this rank have made their last step a little later.
_LEAVE_S: Final = 2.0
# A thread that never gives Python's lock back keeps our thread from running; then the timer of the
# interpreter, which needs no lock, prints the stacks and exits with 1.
_FALLBACK_S: Final = 5.0
# Between two looks at the clock; and how often that timer is set again, which starts a thread.
_LOOK_S: Final = 0.25
_REARM_S: Final = 1.0


def print_stacks_on_signal() -> None:
    """Print the stacks of all threads to standard error on SIGUSR1, unless the program uses it."""
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL and sys.__stderr__ is not None:
        try:
            faulthandler.register(signal.SIGUSR1, file=sys.__stderr__, all_threads=True)
        except (AttributeError, OSError, ValueError):  # no real standard error: nothing to print to
            return


def hang_watch_of(environ: Mapping[str, str]) -> HangWatch | None:
    """Returns the watch that a pod's variables ask for; None if they ask for none."""
    text = environ.get(HANG_VARIABLE, "")
    seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    return HangWatch(seconds) if seconds else None


class HangWatch:
    """Ends this process if no step is done for some seconds while it trains."""

    def __init__(
        self,
        seconds: float,
        leave: Callable[[int], object] = os._exit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._leave, self._clock = seconds, leave, clock
        self._due: float | None = None
        self._armed_at = float("-inf")
        self._thread: threading.Thread | None = None

    def beat(self) -> None:
        """A step is done: the next one has its time from now on."""
        now = self._clock()
        self._due = now + self._seconds
        if now - self._armed_at >= _REARM_S and sys.__stderr__ is not None:
            self._armed_at = now
            late_s = self._seconds + _REARM_S + _LEAVE_S + _FALLBACK_S
            faulthandler.dump_traceback_later(late_s, exit=True, file=sys.__stderr__)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="swell-hang", daemon=True)
            self._thread.start()

    @property
    def is_watching(self) -> bool:
        """Whether a step is due."""
        return self._due is not None

    def pause(self) -> None:
        """No step is due until the next one is done."""
        self._due, self._armed_at = None, float("-inf")
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        while True:
            time.sleep(min(_LOOK_S, self._seconds / 4))
            due = self._due
            if due is None or self._clock() < due:
                continue
            _say(f"no step for {self._seconds:.0f} s (hangSeconds); the stacks of all threads:")
            if sys.__stderr__ is not None:
                faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
            time.sleep(_LEAVE_S)
            if self._due == due:  # a step that was done at last takes the alarm back
                self._leave(HANG_EXIT_CODE)


def _say(message: str) -> None:
    print(f"swell.train: {message}", file=sys.stderr, flush=True)  # noqa: T201 (the program's log)
