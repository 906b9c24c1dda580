"""How a member without a leader finds one, or finds that it is the one to lead."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.train.bus.events import LineId
from swell.train.bus.knowledge import Knowledge, Target
from swell.train.bus.lines import Line, Lines

# So many places are tried at once: few, since all members of a large group look at the same time.
WINDOW = 3
# A place where nobody was, and one that did not answer, are tried again after these times.
EMPTY_S, SILENT_S = 0.25, 2.0
# How long one that was taken for the leader may be silent about it, and is passed over then.
LEADS_S, PASSED_OVER_S = 1.0, 1.5


@dataclass(slots=True)
class Seeker:
    """Goes through the places where the leader may be, in order."""

    _passed: dict[LineId, float] = field(default_factory=dict)

    def pass_over(self, line: LineId, now: float) -> None:
        """The process at the other end does not lead, though it was its turn."""
        self._passed = {k: at for k, at in self._passed.items() if now - at < PASSED_OVER_S}
        self._passed[line] = now

    def seek(self, know: Knowledge, lines: Lines, now: float) -> Line | bool:
        """The line to follow; True when it is this member's turn to lead; False to wait.

        A place is passed over when nobody is there, or when it does not answer: that is no death,
        but the next in order may try to gather a quorum meanwhile.
        """
        n_waiting = 0
        for target in know.targets(now):
            if target.incarnation == know.status.incarnation:
                return n_waiting == 0
            line = _line_to(target, lines)
            if line is not None and n_waiting == 0 and not self._is_passed(line, now):
                return line
            if line is None and self._waits_for(target, know, lines, now):
                n_waiting += 1
            if n_waiting >= WINDOW:
                break
        return False

    def _is_passed(self, line: Line, now: float) -> bool:
        return now - self._passed.get(line.line, -PASSED_OVER_S) < PASSED_OVER_S

    def _waits_for(self, target: Target, know: Knowledge, lines: Lines, now: float) -> bool:
        """Whether a place may still answer; it is called if that was not done yet."""
        if know.deaths.was_empty(target.address, now - EMPTY_S):
            return False
        if know.deaths.was_silent(target.address, now - SILENT_S):
            return False
        dialled = lines.to_address(target.address)
        if dialled is None:
            lines.dial(target.address, now)
        # Otherwise, another process may have answered in its place.
        return dialled is None or dialled.status is None


def _line_to(target: Target, lines: Lines) -> Line | None:
    if target.incarnation is not None:
        return lines.to_incarnation(target.incarnation)
    at_index = [line for line in lines.known() if line.status and line.status.index == target.index]
    # A successor comes after the ghost whose place it took.
    return max(at_index, key=lambda line: line.status.instance, default=None)  # type: ignore[union-attr]
