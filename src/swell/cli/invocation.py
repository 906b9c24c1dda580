"""The command line as it was written, cut where a command of the user's begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.cli.command_line import END_OF_OPTIONS


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
