"""The command line as it was written, and how a command ends when it cannot do what was asked.

Imported by every command and by the overview: nothing slow to load belongs here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

END_OF_OPTIONS = "--"
# Exit codes that shells and other programs know: a wrong command line, and an end by Ctrl-C.
USAGE = 2
INTERRUPTED = 130


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


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line, the command's name first.

    `arguments` are those before a lone `--`; `command` holds what follows it, None without one.
    """

    arguments: tuple[str, ...]
    command: tuple[str, ...] | None = None


def split(arguments: Sequence[str]) -> Invocation:
    """Cut a command line at its first lone `--`, which typer would drop."""
    written = tuple(arguments)
    if END_OF_OPTIONS not in written:
        return Invocation(written)
    at = written.index(END_OF_OPTIONS)
    return Invocation(written[:at], written[at + 1 :])
