"""One line on a terminal that is replaced as work goes on: a bar, or a sentence.

It is written to stderr, and nowhere else than on a terminal: a log would keep every state of it.
It has no colours; with NO_COLOR it is also erased without the sequences that colours are made of.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from swell.cli.command_line import is_quiet
from swell.cli.output import printable

T = TypeVar("T")
# Terminal control: to the beginning of the line, then erase it.
_CLEAR_LINE = "\r\x1b[K"
_BAR_LENGTH = 24
# Between two draws, so that a fast loop is not slowed down by its terminal.
_PERIOD_S = 0.1


class ProgressLine:
    """The line; use it in a `with`, which removes it at the end."""

    def __init__(self) -> None:
        is_dumb = os.environ.get("TERM") == "dumb"
        self.is_shown = sys.stderr.isatty() and not is_quiet() and not is_dumb
        self._is_plain = bool(os.environ.get("NO_COLOR"))
        self._drawn_at = float("-inf")
        self._drawn = ""
        self._title = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def count(self, title: str, n_done: int, n_all: int) -> None:
        """Show a bar of so many parts: its first state, its last one, and some between.

        Nothing is drawn of work that is done when it is first counted, unless other work is shown.
        """
        is_full = n_done >= n_all
        if self._drawn or not is_full:
            is_urgent = is_full or title != self._title
            self._title = title
            self.say(counted(title, n_done, n_all), is_urgent=is_urgent)

    def counting(self, title: str, parts: Sequence[T]) -> Iterator[T]:
        """Yield parts one after the other, and show how many of them are done."""
        for n_done, part in enumerate(parts):
            self.count(title, n_done, len(parts))
            yield part

    def say(self, text: str, *, is_urgent: bool = False) -> None:
        """Replace the line, unless it was replaced a moment ago."""
        now = time.monotonic()
        if not self.is_shown or (now - self._drawn_at < _PERIOD_S and not is_urgent):
            return
        self._drawn_at = now
        width = shutil.get_terminal_size().columns - 1
        shown = printable(text)[:width]
        sys.stderr.write(f"{self._erasing()}{shown}")
        sys.stderr.flush()
        self._drawn = shown

    def clear(self) -> None:
        """Remove the line, so that other output can follow."""
        if self._drawn:
            sys.stderr.write(self._erasing())
            sys.stderr.flush()
            self._drawn = ""

    def _erasing(self) -> str:
        return f"\r{' ' * len(self._drawn)}\r" if self._is_plain else _CLEAR_LINE


def counted(title: str, n_done: int, n_all: int) -> str:
    """Return a bar such as `restoring [######......] 12/24`."""
    filled = _BAR_LENGTH * n_done // max(n_all, 1)
    return f"{title} [{'#' * filled}{'.' * (_BAR_LENGTH - filled)}] {n_done}/{n_all}"
