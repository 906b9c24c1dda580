"""One line on a terminal that is replaced as work goes on: a bar, or a sentence.

It is written to stderr, and nowhere else than on a terminal: a log would keep every state of it.
"""

from __future__ import annotations

import shutil
import sys
import time

from swell.cli.command_line import is_quiet
from swell.cli.output import printable

# Terminal control: to the beginning of the line, then erase it.
_CLEAR_LINE = "\r\x1b[K"
_BAR_LENGTH = 24
# Between two draws, so that a fast loop is not slowed down by its terminal.
_PERIOD_S = 0.1


class ProgressLine:
    """The line; use it in a `with`, which removes it at the end."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty() and not is_quiet()
        self._drawn_at = float("-inf")
        self._has_line = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def count(self, title: str, n_done: int, n_all: int) -> None:
        """Show a bar of so many parts; the last one is always drawn."""
        self.say(counted(title, n_done, n_all), is_urgent=n_done >= n_all)

    def say(self, text: str, *, is_urgent: bool = False) -> None:
        """Replace the line, unless it was replaced a moment ago."""
        now = time.monotonic()
        if not self._is_shown or (now - self._drawn_at < _PERIOD_S and not is_urgent):
            return
        self._drawn_at = now
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"{_CLEAR_LINE}{printable(text)[:width]}")
        sys.stderr.flush()
        self._has_line = True

    def clear(self) -> None:
        """Remove the line, so that other output can follow."""
        if self._has_line:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._has_line = False


def counted(title: str, n_done: int, n_all: int) -> str:
    """Return a bar such as `restoring [######......] 12/24`."""
    filled = _BAR_LENGTH * n_done // max(n_all, 1)
    return f"{title} [{'#' * filled}{'.' * (_BAR_LENGTH - filled)}] {n_done}/{n_all}"
