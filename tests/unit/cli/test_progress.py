"""The line that is replaced as work goes on: where it is drawn, how, and what is left of it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from swell.cli.command_line import Quietness
from swell.cli.progress import ProgressLine, counted

CLEAR = "\r\x1b[K"


class Screen(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(Quietness, "is_on", False)
    return Screen()


def test_bar_is_drawn_and_removed(screen: Screen) -> None:
    """The first state and the full one are drawn; nothing is left at the end."""
    with redirect_stderr(screen), ProgressLine() as line:
        for n_done in range(5):
            line.count("copying", n_done, 4)

    assert screen.getvalue().split(CLEAR) == [
        "",
        counted("copying", 0, 4),
        counted("copying", 4, 4),
        "",
    ]


def test_quick_work_draws_nothing(screen: Screen) -> None:
    """Work that is done before it could be shown leaves the terminal as it was."""
    with redirect_stderr(screen), ProgressLine() as line:
        line.count("copying", 3, 3)

    assert screen.getvalue() == ""


def test_parts_are_counted_as_they_are_taken(screen: Screen) -> None:
    with redirect_stderr(screen), ProgressLine() as line:
        assert list(line.counting("writing", "ab")) == ["a", "b"]

    assert counted("writing", 0, 2) in screen.getvalue()


def test_no_colour_means_no_escape_sequences(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With NO_COLOR the line is overwritten with blanks."""
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stderr(screen), ProgressLine() as line:
        line.say("a sentence", is_urgent=True)
        line.say("short", is_urgent=True)

    assert "\x1b" not in screen.getvalue()
    blank = f"\r{' ' * len('a sentence')}\r"
    assert screen.getvalue() == f"\r\ra sentence{blank}short\r{' ' * 5}\r"


@pytest.mark.parametrize("reason", ["quiet", "dumb", "pipe"])
def test_nothing_is_drawn_where_it_is_not_wanted(
    reason: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --quiet, on a terminal that cannot, and in a pipe."""
    if reason == "quiet":
        monkeypatch.setattr(Quietness, "is_on", True)
    elif reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    else:
        monkeypatch.setattr(Screen, "isatty", lambda _: False)
    with redirect_stderr(screen), ProgressLine() as line:
        line.count("copying", 0, 4)
        line.say("a sentence", is_urgent=True)

    assert not line.is_shown
    assert screen.getvalue() == ""


def test_line_is_no_longer_than_the_terminal(screen: Screen) -> None:
    """A line that is wrapped could not be erased; and it holds no control characters."""
    with redirect_stderr(screen), ProgressLine() as line:
        line.say("x\x1b[31m" + "y" * 200, is_urgent=True)

    shown = screen.getvalue().split(CLEAR)[1]
    assert len(shown) == 79
    assert "\x1b" not in shown
