"""How a leader asks at the places of those who are missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from swell.train.bus.events import LineId
from swell.train.bus.knowledge import Knowledge
from swell.train.bus.lines import DIAL_S, Address, Lines
from swell.train.bus.messages import MemberStatus

# Every place is asked again after this time, and so many at once.
PROBE_S = 0.5
PROBES_MAX = 16


@dataclass(slots=True)
class MemberProber:
    """The places that were asked, and when."""

    _know: Knowledge
    _lines: Lines
    _probed: dict[Address, float] = field(default_factory=dict)

    def probe(self, here: Collection[MemberStatus], since: float, now: float) -> None:
        """Ask where nobody of those who are here is, at the places of the plan's members first."""
        incarnations = {status.incarnation for status in here}
        indexes = {status.index for status in here}
        for target in self._know.targets(now):
            known = target.incarnation
            if known in incarnations if known else target.index in indexes:
                continue
            asked = self._probed.get(target.address, -PROBE_S)
            # After a change, all that was heard before is old.
            if now - asked < PROBE_S and asked >= since:
                continue
            if self._lines.to_address(target.address) is None:
                if sum(not line.opened for line in self._lines.all()) >= PROBES_MAX:
                    return
                self._probed[target.address] = now
                self._lines.dial(target.address, now)

    def drop_idle(self, followers: Collection[LineId], now: float) -> None:
        """Close lines to processes that have answered and follow somebody else."""
        for line in self._lines.known():
            is_probe = line.address is not None and line.line not in followers
            if is_probe and now - line.since > DIAL_S:
                self._lines.drop(line.line)
