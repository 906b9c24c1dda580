"""SIGTERM, seen at once even while the training thread sits in a collective.

Python runs a handler only between two of its own instructions. The number of the signal is written
to a descriptor at once, however, and the bus thread reads it there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None


class TerminationSignal:
    """Installed in the main thread; the program's own handler and descriptor go on working."""

    def __init__(self, descriptor: int) -> None:
        self._earlier: Handler = None
        self._earlier_descriptor = -1
        self.is_installed = threading.current_thread() is threading.main_thread()
        if self.is_installed:
            self._earlier = signal.getsignal(signal.SIGTERM)
            # Without a handler of Python's the process would simply end.
            signal.signal(signal.SIGTERM, self._handle)
            self._earlier_descriptor = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if callable(self._earlier):
            self._earlier(number, frame)

    def pass_on(self, numbers: bytes) -> None:
        """Write the numbers of signals to the descriptor that the program had set before."""
        if self._earlier_descriptor >= 0 and numbers:
            with contextlib.suppress(OSError):
                os.write(self._earlier_descriptor, numbers)

    def forget_in_child(self) -> None:
        """Give a forked child the handler and the descriptor that the program had before."""
        self.uninstall()

    def uninstall(self) -> None:
        if not self.is_installed or threading.current_thread() is not threading.main_thread():
            return
        self.is_installed = False
        signal.set_wakeup_fd(self._earlier_descriptor, warn_on_full_buffer=False)
        # A handler that was not set by Python cannot be set again by it.
        if self._earlier is not None:
            signal.signal(signal.SIGTERM, self._earlier)
