"""Every flag of every command that people type: it has a help text, and some test gives it."""

from __future__ import annotations

import re
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
def tests() -> str:
    """The texts of all tests, and the pages whose commands are run by them."""
    docs = TESTS.parent / "docs"
    pages = [docs / "tutorial.md", docs / "troubleshooting.md", docs / "installation.md"]
    others = [path for path in TESTS.rglob("*.py") if path.name != Path(__file__).name]
    return "\n".join(path.read_text() for path in [*others, *pages])


def test_every_flag_is_given_by_a_test(tests: str) -> None:
    """A flag that no test gives may have been broken for long."""
    given = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", tests))
    names: dict[str, set[str]] = {}
    for _, option in flags():
        names.setdefault(option.opts[-1], set()).update([*option.opts, *option.secondary_opts])
    missing = sorted(long for long, known in names.items() if not known & given)

    assert missing == []


def test_every_flag_of_ours_has_a_help_text() -> None:
    """`--help` leaves no flag unexplained."""
    silent = {(name, option.opts[-1]) for name, option in flags() if not option.help}

    assert {(name, flag) for name, flag in silent if flag != "--output"} == set()
