"""Errors that look as if a member had died, and who gives up when nobody has.

A collective that fails is taken for a member's death: the group forms anew, and the step is redone.
If the same members fail in the same step again and again, it is no death but a fault of the program
or of the machine (no memory for a library's buffers, two processes on one GPU): its error ends the
process, where the operator sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

# A network that is disturbed for a while breaks a group several times, too.
N_TRIES, TRY_S = 10, 60.0
# As long as the address and the cause that gloo names; its advice comes after them.
LINE_MAX = 240


@dataclass(slots=True)
class Setbacks:
    """How often the same group has failed in the same step, seen from one member."""

    warn: Callable[[str], None]
    _key: tuple[int, frozenset[int]] = (-1, frozenset())
    _n_times: int = 0
    _since: float = field(default=0.0)

    def add(self, step: int, members: frozenset[int], error: Exception, now: float) -> None:
        """Count an error that came before word of any death. The log has the 1st, 10th, 100th."""
        if (step, members) != self._key:
            self._key, self._n_times, self._since = (step, members), 0, now
        self._n_times += 1
        if str(self._n_times).strip("0") == "1":
            often = "" if self._n_times == 1 else f", for the {self._n_times}th time"
            self.warn(
                f"the group of {len(members)} broke up after step {step}{often}, and forms anew:"
                f" {type(error).__name__}: {_first_line(error)}"
            )

    def is_too_much(self, now: float) -> bool:
        """Whether the same members have failed so often, and for so long, that nobody has died."""
        return self._n_times >= N_TRIES and now - self._since >= TRY_S


def _first_line(error: Exception) -> str:
    """Returns what an error says, without the places in its code that a library adds."""
    line = next(iter(str(error).splitlines()), "")
    return line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}..."
