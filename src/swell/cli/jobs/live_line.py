"""The line that says where a followed job is: replaced on a terminal, else printed when it changes.

Output of the job goes to stdout, which may be the same terminal: the line makes room for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from swell.cli.command_line import note
from swell.cli.jobs.logs import LogLine
from swell.cli.output import printable
from swell.cli.progress import ProgressLine

Print = Callable[[Iterable[LogLine]], None]


class FollowLine(Protocol):
    """Takes what is to be said of a job that is followed."""

    def progress(self, text: str) -> None: ...

    def report(self, text: str) -> None: ...


class SilentLine:
    """Says nothing: `swell logs` prints what the job prints."""

    def progress(self, text: str) -> None:
        del text

    def report(self, text: str) -> None:
        del text


@dataclass(slots=True)
class LiveLine:
    """Writes what happens to one job to stderr."""

    name: str
    _line: ProgressLine = field(default_factory=ProgressLine)

    def progress(self, text: str) -> None:
        """Say where the job is now: on a terminal in place of what was said before."""
        if not self._line.is_shown:
            self.report(text)
            return
        sys.stdout.flush()
        self._line.say(f"{self.name}: {text}", is_urgent=True)

    def report(self, text: str) -> None:
        """Say something that stays."""
        self.clear()
        sys.stdout.flush()
        note(printable(f"{self.name}: {text}"))
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away, because something else is written."""
        self._line.clear()

    def making_room(self, show: Print) -> Print:
        """Return a function that prints lines and takes the line away first, if there are any."""

        def printed(lines: Iterable[LogLine]) -> None:
            rest = iter(lines)
            for first in rest:
                self.clear()
                show(chain((first,), rest))

        return printed
