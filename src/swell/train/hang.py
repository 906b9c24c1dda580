"""Stacks of all threads in the log when somebody sends SIGUSR1: the first question of a hang."""

from __future__ import annotations

import faulthandler
import signal
import sys


def print_stacks_on_signal() -> None:
    """Print the stacks of all threads to standard error on SIGUSR1, unless the program uses it."""
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL and sys.__stderr__ is not None:
        try:
            faulthandler.register(signal.SIGUSR1, file=sys.__stderr__, all_threads=True)
        except (AttributeError, OSError, ValueError):  # no real standard error: nothing to print to
            return
