"""Flags as Go programs take them: boolean ones with a value, `--flag=false`, and `-o=json`.

Typer knows `--flag`, `--no-flag` and `-o json` alone. Command lines of older operators and of
kubectl's users write the others, so these are rewritten before typer parses the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swell.cli.command_line import END_OF_OPTIONS, USAGE, CommandError

# The texts that Go's strconv.ParseBool takes.
_VALUES = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parsed_boolean(text: str) -> bool | None:
    """The value that Go reads from a text; None if it reads none."""
    return _VALUES.get(text)


def with_plain_flags(command: Any, arguments: Sequence[str]) -> list[str]:
    """Return the command line with `--flag` or its negation for every boolean flag with a value.

    `command` is the parser that typer has built. A flag without a negation gets one, for this
    command line only: without it, a false could not outweigh an environment variable.
    """
    plain: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == END_OF_OPTIONS:
            return [*plain, argument, *left]
        flag, has_value, text = argument.partition("=")
        option = _option(command, flag)
        if option is None:
            # A word may name a command of a group, whose flags follow.
            command = getattr(command, "commands", {}).get(argument, command)
            plain.append(argument)
        elif not option.is_flag and has_value and not flag.startswith("--"):
            # Typer would take the sign in `-o=json` for a part of the value.
            plain += [flag, text]
        elif not option.is_flag:
            plain.append(argument)
            plain += _values(option, left) if not has_value else ()
        else:
            plain.append(_plain(option, flag, text) if has_value else argument)
    return plain


def _option(command: Any, flag: str) -> Any:
    """The option of this name; None if there is none, or if the word is no flag."""
    if not flag.startswith("-"):
        return None
    for one in command.params:
        if flag in one.opts or flag in one.secondary_opts:
            return one if hasattr(one, "is_flag") else None
    return None


def _values(option: Any, left: Iterator[str]) -> list[str]:
    """Take the values that follow an option; they may look like flags."""
    return [value for _, value in zip(range(max(option.nargs, 0)), left, strict=False)]


def _plain(option: Any, flag: str, text: str) -> str:
    if text not in _VALUES:
        hint = f"write {flag}=true or {flag}=false"
        raise CommandError(f"{flag}: {text!r} is neither true nor false", hint, USAGE)
    is_on = _VALUES[text] is (flag in option.opts)
    if is_on:
        return str(option.opts[-1])
    if not option.secondary_opts:
        option.secondary_opts = [f"--no-{option.opts[-1].lstrip('-')}"]
    return str(option.secondary_opts[-1])
