"""Every flag of every command that people type: it has a help text, and some test gives it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from swell.cli.main import COMMANDS

TESTS = Path(__file__).parents[2]
# Typer adds it to every command.
HELP = "--help"
FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z0-9-]*")
CLOSE = 300  # characters: a command line in a test may take several lines
# Groups that many commands share, whose fields are read at one place.
SHARED = frozenset({"--kubeconfig", "--context", "--embedded", "--namespace", "--all-namespaces"})
# The scheduler's own configuration, which commands that decide as it does read alike.
SHARED |= {"--config", "--scheduler-name"}
PROGRAMS = frozenset({"up", "operator", "scheduler", "server", "node"})


def parsers() -> Iterator[tuple[str, Any]]:
    """Yield every command with its parser, and those of groups one by one."""
    for name, place, _ in COMMANDS:
        module, _, attribute = place.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            group: Any = typer.main.get_command(found)
            for inner, parser in getattr(group, "commands", {inner_name(name): group}).items():
                yield f"{name} {inner}", parser
        else:
            app = typer.Typer(add_completion=False)
            app.command(name)(found)
            yield name, typer.main.get_command(app)


def inner_name(name: str) -> str:
    """Return the name of the only command of a group, which typer does not keep as a group."""
    return name


def flags() -> Iterator[tuple[str, Any]]:
    for name, parser in parsers():
        for option in parser.params:
            if hasattr(option, "is_flag") and HELP not in option.opts:
                yield name, option


@pytest.fixture(scope="module")
def tests() -> list[str]:
    """The texts of all tests, and of the pages whose commands are run by them."""
    docs = TESTS.parent / "docs"
    pages = [docs / "tutorial.md", docs / "troubleshooting.md", docs / "installation.md"]
    others = [path for path in TESTS.rglob("*.py") if path.name != Path(__file__).name]
    return [path.read_text() for path in [*others, *pages]]


def test_every_flag_is_given_by_a_test(tests: list[str]) -> None:
    """A flag that no test gives may have been broken for long.

    A command that people type is given each of its flags: they stand close behind its name. Those
    of programs that stay are options of settings, which tests give by themselves.
    """
    anywhere = {flag for text in tests for flag in FLAG.findall(text)}
    of_commands = given_to_commands(tests, {name.split()[0] for name, _ in flags()})
    missing = []
    for name, option in flags():
        command = name.split()[0]
        is_shared = option.opts[-1] in SHARED or command in PROGRAMS
        given = anywhere if is_shared else of_commands.get(command, set())
        if not {*option.opts, *option.secondary_opts} & given:
            missing.append(f"{name} {option.opts[-1]}")

    assert missing == []


def given_to_commands(texts: list[str], commands: set[str]) -> dict[str, set[str]]:
    """Return the flags that stand close behind the name of each command."""
    word = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(commands)))})(?![\w-])")
    given: dict[str, set[str]] = {}
    for text in texts:
        found = [(one.start(), one.group()) for one in FLAG.finditer(text)]
        places = [at for at, _ in found]
        for one in word.finditer(text):
            begin, end = bisect_left(places, one.end()), bisect_left(places, one.end() + CLOSE)
            given.setdefault(one.group(), set()).update(flag for _, flag in found[begin:end])
    return given


def test_every_flag_of_ours_has_a_help_text() -> None:
    """`--help` leaves no flag unexplained."""
    silent = {(name, option.opts[-1]) for name, option in flags() if not option.help}

    assert {(name, flag) for name, flag in silent if flag != "--output"} == set()
