"""What a job's program says reaches terminals as text, not as commands to them."""

from __future__ import annotations

import pytest

from swell.cli.output import aligned, printable

TITLE = "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TITLE, "^[]0;owned^G"),
        ("\x1b[2J\x1b[31mred", "^[[2J^[[31mred"),
        ("a\rb\bc\x7f\x00", "a^Mb^Hc^?^@"),
        ("\x9b2J\x85", "\\x9b2J\\x85"),
        ("a\tb\nc", "a\tb\nc"),
        ("größe 模型 🙂", "größe 模型 🙂"),
    ],
)
def test_controls_of_terminals_become_visible(text: str, shown: str) -> None:
    """Ends of lines, tabs and letters of every script stay."""
    assert printable(text) == shown


def test_tables_are_as_wide_as_what_is_shown() -> None:
    rows = [["NAME", "MESSAGE", "AGE"], ["ant", TITLE, "1s"]]

    assert aligned(rows).splitlines() == [
        "NAME   MESSAGE        AGE",
        "ant    ^[]0;owned^G   1s",
    ]
