"""Lines between processes. They keep the order of messages, but are slow, cut, or broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swell.train.bus.events import (
    DialRefused,
    DialUnnamed,
    LineClosed,
    LineId,
    LineOpened,
    Received,
)
from swell.train.bus.messages import Message

if TYPE_CHECKING:
    from tests.sim.train.process import SimulatedProcess
    from tests.sim.train.world import BusWorld


@dataclass(eq=False, slots=True)
class End:
    """One end of a wire: a process, and the number of the line there."""

    process: SimulatedProcess
    line: LineId
    last: float = 0.0  # when the last message to this end arrives
    is_open: bool = True


@dataclass(eq=False, slots=True)
class Wire:
    """A line: its caller's end and its answerer's."""

    caller: End
    answerer: End

    def ends(self) -> tuple[End, End]:
        return self.caller, self.answerer

    def other(self, end: End) -> End:
        return self.answerer if end is self.caller else self.caller


@dataclass(eq=False, slots=True)
class Network:
    """All wires, and the cuts between processes."""

    world: BusWorld
    is_slow_until: float = 0.0
    _wires: dict[tuple[int, LineId], tuple[Wire, End]] = field(default_factory=dict)
    # (from, to) by incarnation: what is sent waits until the cut is healed.
    _cuts: dict[tuple[int, int], list[Callable[[], None]]] = field(default_factory=dict)
    _lose: dict[int, int] = field(default_factory=dict)
    _accepted: dict[int, int] = field(default_factory=dict)

    def _latency(self) -> float:
        chance, scale = self.world.chance, self.world.story.latency_s
        slow = 10.0 if self.world.clock.now < self.is_slow_until else 1.0
        return slow * scale * chance.uniform(0.2, 1.0)

    def dial(self, process: SimulatedProcess, line: LineId, host: str) -> None:
        found, answer = self.world.operator.resolve(host)
        if found is None or found is process:
            if answer == "refused":
                process.after(self._latency(), lambda: process.handle(DialRefused(line)))
            elif answer == "unnamed":
                process.after(self._latency(), lambda: process.handle(DialUnnamed(line)))
            return
        if self._is_cut(process, found) or self._is_cut(found, process):
            return  # Nobody answers; the caller gives up some time.

        def arrive() -> None:
            found.run(lambda: self._open(process, line, found))

        self.world.clock.after(self._latency(), arrive)

    def _open(self, caller: SimulatedProcess, line: LineId, answerer: SimulatedProcess) -> None:
        if not caller.is_alive or caller.member.lines.get(line) is None:
            return
        number = self._accepted.get(answerer.incarnation, -1) + 2
        self._accepted[answerer.incarnation] = number
        wire = Wire(End(caller, line), End(answerer, number))
        for end in wire.ends():
            self._wires[end.process.incarnation, end.line] = wire, end

        def opened() -> None:
            if caller.member.lines.get(line) is None:
                self.hang_up(caller, line)
                return
            self._push(wire, wire.answerer, lambda: answerer.handle(LineOpened(number)))
            caller.handle(LineOpened(line))

        self._push(wire, wire.caller, opened)

    def send(self, process: SimulatedProcess, line: LineId, number: int, message: Message) -> None:
        found = self._wires.get((process.incarnation, line))
        if found is None:
            return
        wire, end = found
        if self._lose.get(process.incarnation, 0) > 0:
            self._lose[process.incarnation] -= 1
            return
        to = wire.other(end)
        self._push(wire, to, lambda: to.process.handle(Received(to.line, number, message)))

    def _push(self, wire: Wire, to: End, call: Callable[[], None]) -> None:
        """Deliver something to an end, after all that was sent to it before."""
        sender = wire.other(to).process

        def travel() -> None:
            to.last = max(to.last, self.world.clock.now + self._latency())
            self.world.clock.at(to.last, lambda: call() if to.is_open else None)

        if self._is_cut(sender, to.process):
            self._cuts.setdefault((sender.incarnation, to.process.incarnation), []).append(travel)
        else:
            travel()

    def hang_up(self, process: SimulatedProcess, line: LineId, *, loses: bool = False) -> None:
        """Close a line. The other end sees it after all messages, or at once and loses some."""
        found = self._wires.pop((process.incarnation, line), None)
        if found is None:
            return
        wire, end = found
        end.is_open = False
        to = wire.other(end)

        def closed() -> None:
            if to.is_open:
                to.is_open = False
                self._wires.pop((to.process.incarnation, to.line), None)
                to.process.handle(LineClosed(to.line))

        if loses:
            self.world.clock.after(self._latency() / 2, closed)
        else:
            self._push(wire, to, closed)

    def lines_of(self, process: SimulatedProcess) -> list[LineId]:
        return [line for owner, line in self._wires if owner == process.incarnation]

    def die(self, process: SimulatedProcess) -> None:
        """The kernel closes all lines of a process."""
        loses = self.world.chance.random() < 0.3
        for line in self.lines_of(process):
            self.hang_up(process, line, loses=loses)

    def break_lines(self, process: SimulatedProcess) -> None:
        for line in self.lines_of(process):
            # A line that breaks may make the process give up others.
            if (process.incarnation, line) in self._wires:
                self.hang_up(process, line, loses=True)
                process.handle(LineClosed(line))

    def lose_next(self, process: SimulatedProcess) -> None:
        self._lose[process.incarnation] = 1

    # ---- cuts

    def cut(self, process: SimulatedProcess, *, out: bool, into: bool) -> None:
        for other in self.world.operator.living():
            if other is process:
                continue
            if out:
                self._cuts.setdefault((process.incarnation, other.incarnation), [])
            if into:
                self._cuts.setdefault((other.incarnation, process.incarnation), [])

    def heal(self, process: SimulatedProcess | None = None) -> None:
        for pair in list(self._cuts):
            if process is None or process.incarnation in pair:
                for travel in self._cuts.pop(pair):
                    travel()

    def _is_cut(self, sender: SimulatedProcess, receiver: SimulatedProcess) -> bool:
        if sender.is_vanished or receiver.is_vanished:
            return True
        return (sender.incarnation, receiver.incarnation) in self._cuts
