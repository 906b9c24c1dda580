"""Splitting a command line at a lone `--`."""

from __future__ import annotations

import pytest

from swell.cli.invocation import Invocation, split


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "a.yaml"], Invocation(("run", "a.yaml"))),
        (["run", "--", "ls"], Invocation(("run",), ("ls",))),
        (["run", "--"], Invocation(("run",), ())),
        (["run", "--", "sh", "--", "x"], Invocation(("run",), ("sh", "--", "x"))),
    ],
)
def test_split_ends_options_at_the_first_mark(arguments: list[str], expected: Invocation) -> None:
    """What follows the first `--` is the user's command, whatever it is."""
    assert split(arguments) == expected
