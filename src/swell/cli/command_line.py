"""How a command reports, and how it ends when it cannot do what was asked.

Imported by every command and by the overview: nothing slow to load belongs here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

END_OF_OPTIONS = "--"
# Exit codes that shells and other programs know: a wrong command line, and an end by Ctrl-C.
USAGE = 2
INTERRUPTED = 130


def collect_seldom() -> None:
    """Make garbage collections rare.

    Each looks through the caches of the whole cluster; and what a process loads when it starts, an
    eighth of the time of which collections would take, is no garbage.
    """
    # The defaults are 700, 10 and 10.
    gc.set_threshold(50_000, 50, 1000)


class CommandError(Exception):
    """A command cannot do what was asked. `hint` tells the user what to do about it.

    `details` are lines that come before the message: the places of mistakes.
    """

    def __init__(
        self, message: str, hint: str = "", exit_code: int = 1, details: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code
        self.details = tuple(details)


class Quietness:
    """Whether `--quiet` was given: stderr gets warnings and errors only."""

    is_on = False


def is_quiet() -> bool:
    return Quietness.is_on


def note(text: str) -> None:
    """Write a line about what is being done to stderr, unless the user wants none of it."""
    if not is_quiet():
        sys.stderr.write(f"{text}\n")
