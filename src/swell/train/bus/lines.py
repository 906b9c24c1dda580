"""The lines of a member: numbers of messages, signs of life, and who is at the other end."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.train.bus.events import (
    SELF,
    Dial,
    HangUp,
    Instruction,
    LineId,
    Received,
    SendMessage,
)
from swell.train.bus.messages import MemberStatus, Message, Ping

PING_S = 2.0
# For machines that vanish without closing their lines; a paused process may come back sooner.
SILENCE_S = 10.0
# A member of a busy machine answers within this; nobody decides anything by the lack of an answer.
DIAL_S = 1.0

Address = tuple[str, int]


@dataclass(slots=True)
class Line:
    """One line. It counts as known once the other end has said hello."""

    line: LineId
    address: Address | None  # of a line that was dialled
    since: float
    heard: float
    opened: bool = False
    sent: int = 0
    received: int = 0
    pinged: float = 0.0
    status: MemberStatus | None = None
    leads: bool = False
    generation: int = 0  # of the last plan that the other end knows
    follows: bool = False


@dataclass(slots=True)
class Lines:
    """All lines, with what has to be done about them."""

    instructions: list[Instruction] = field(default_factory=list)
    to_self: list[Message] = field(default_factory=list)
    _lines: dict[LineId, Line] = field(default_factory=dict)
    _dialled: int = 0

    def get(self, line: LineId) -> Line | None:
        return self._lines.get(line)

    def all(self) -> list[Line]:
        return list(self._lines.values())

    def known(self) -> list[Line]:
        """The lines whose other end has said hello."""
        return [line for line in self._lines.values() if line.status is not None]

    def to_address(self, address: Address) -> Line | None:
        """The line that was dialled to an address, open or not yet."""
        return next((line for line in self._lines.values() if line.address == address), None)

    def to_incarnation(self, incarnation: int) -> Line | None:
        found = (line for line in self.known() if line.status.incarnation == incarnation)  # type: ignore[union-attr]
        return next(found, None)

    def dial(self, address: Address, now: float) -> Line:
        self._dialled += 2
        line = Line(self._dialled, address, since=now, heard=now)
        self._lines[line.line] = line
        self.instructions.append(Dial(line.line, *address))
        return line

    def open(self, line: LineId, now: float) -> Line:
        found = self._lines.setdefault(line, Line(line, None, since=now, heard=now))
        found.opened, found.heard = True, now
        return found

    def accepts(self, event: Received, now: float) -> bool:
        """Whether a message is the next of its line. After a gap, the line is of no use."""
        line = self._lines.get(event.line)
        if line is None or event.number != line.received + 1:
            return False
        line.received, line.heard = event.number, now
        return True

    def send(self, line: LineId, message: Message) -> None:
        if line == SELF:
            self.to_self.append(message)
            return
        found = self._lines.get(line)
        if found is not None and found.opened:
            found.sent += 1
            self.instructions.append(SendMessage(line, found.sent, message))

    def drop(self, line: LineId) -> Line | None:
        """Forget a line and close it."""
        found = self._lines.pop(line, None)
        if found is not None:
            self.instructions.append(HangUp(line))
        return found

    def forget(self, line: LineId) -> Line | None:
        """Forget a line that is closed already."""
        return self._lines.pop(line, None)

    def overdue(self, now: float) -> list[Line]:
        """The lines that have said nothing for too long, or were not answered in time."""
        return [
            line
            for line in self._lines.values()
            if now - line.heard > (SILENCE_S if line.status is not None else DIAL_S)
        ]

    def ping(self, now: float) -> None:
        for line in self._lines.values():
            if line.opened and now - line.pinged >= PING_S:
                line.pinged = now
                self.send(line.line, Ping())
