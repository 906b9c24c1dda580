"""Boolean flags with and without a value, of every command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import typer

from swell.cli.booleans import with_plain_flags
from swell.cli.command_line import CommandError
from swell.cli.main import COMMANDS


def _parser(place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    app = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name="group")
        parser: Any = typer.main.get_command(app)
        return parser.commands["group"]
    app.command()(found)
    return typer.main.get_command(app)


def _flags() -> list[tuple[str, str, Any, Any]]:
    """Every boolean flag of every command: the command, the flag, its parser and its option."""
    found = []
    for name, place, _ in COMMANDS:
        parser = _parser(place)
        for path, command in [(name, parser), *getattr(parser, "commands", {}).items()]:
            for option in command.params:
                if getattr(option, "is_flag", False) and option.name != "help":
                    found += [(path, flag, place, option.name) for flag in option.opts]
    return found


def _value(command: Any, name: str, arguments: list[str]) -> object:
    """The value that a command's parser reads for one option, without running the command."""
    context = command.make_context("x", list(arguments), resilient_parsing=True)
    return context.params[name]


@pytest.mark.parametrize(("path", "flag", "place", "name"), _flags())
def test_every_boolean_flag_takes_values(path: str, flag: str, place: str, name: str) -> None:
    """As Go reads booleans; without a value it is true."""
    for text, wanted in [
        ("", True),
        *((f"={true}", True) for true in ("1", "t", "T", "true", "TRUE", "True")),
        *((f"={false}", False) for false in ("0", "f", "F", "false", "FALSE", "False")),
    ]:
        parser = _parser(place)
        command = getattr(parser, "commands", {}).get(path, parser)
        plain = with_plain_flags(command, [f"{flag}{text}"])
        assert _value(command, name, plain) is wanted, (flag, text)


@pytest.mark.parametrize("text", ["", "yes", "maybe", "2", "tRUE", " true"])
def test_wrong_value_names_flag_and_value(text: str) -> None:
    """The message has both, and the hint the right spelling."""
    command = _parser("swell.cli.controllers.operator:operator")

    with pytest.raises(CommandError) as refused:
        with_plain_flags(command, [f"--leader-elect={text}"])

    assert str(refused.value) == f"--leader-elect: {text!r} is neither true nor false"
    assert refused.value.exit_code == 2


def test_negations_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--no-x=false` is `--x`; a false on the command line outweighs a variable."""
    monkeypatch.setenv("SWELL_AUTOCLEAN", "true")
    command = _parser("swell.cli.controllers.operator:operator")

    assert with_plain_flags(command, ["--no-gang=false", "--no-gang=1"]) == ["--gang", "--no-gang"]
    plain = with_plain_flags(command, ["--autoclean=false"])
    assert command.make_context("x", plain).params["autoclean"] is False


def test_values_of_other_options_are_left_alone() -> None:
    """A value may look like a flag, and after `--` everything is the user's own."""
    command = _parser("swell.cli.controllers.operator:operator")
    line = ["--lease-name", "--gang=maybe", "--context=--gang=maybe", "--", "--gang=maybe"]

    assert with_plain_flags(command, line) == line
