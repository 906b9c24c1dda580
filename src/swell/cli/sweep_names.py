"""Recognises `sweep X`, `sweep/X` and `sweeps` among the arguments of a command.

A kind of its own for people, and a label for servers. Commands ask this before they load the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.cli.command_line import USAGE, CommandError

_KINDS = frozenset({"sweep", "sweeps"})


def sweep_names(arguments: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of sweeps, none for all of them; None if the arguments are about others."""
    kinds = [argument.partition("/")[0].lower() in _KINDS for argument in arguments]
    if not arguments or not kinds[0]:
        return None
    if "/" not in arguments[0]:
        return tuple(arguments[1:])
    names = tuple(argument.partition("/")[2] for argument in arguments)
    if not all(kinds) or not all(names):
        raise CommandError("write every sweep as sweep/NAME", exit_code=USAGE)
    return names


def one_sweep(argument: str) -> str | None:
    """Return the name in `sweep/X`; None if it is no sweep."""
    names = sweep_names([argument]) if "/" in argument else None
    return names[0] if names else None
