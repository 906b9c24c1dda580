"""One process: a member's state machine with its own clock, which can be paused and killed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from swell.train.bus.events import Deliver, Event, Tick
from swell.train.bus.member import BusMember
from swell.train.bus.messages import MemberStatus, Roster

if TYPE_CHECKING:
    from tests.sim.train.training import Trainer
    from tests.sim.train.world import BusWorld

TICK_S = 0.2
BUS_PORT = 1


class SimulatedProcess:
    """A process, alive until it is killed or exits."""

    def __init__(
        self, world: BusWorld, index: int, instance: int, host: str, roster: Roster
    ) -> None:
        self.world = world
        self.index = index
        self.instance = instance
        self.host = host
        self.incarnation = world.chance.getrandbits(48) | 1
        self.name = f"{index}.{instance}.{self.incarnation % 1000:03d}"
        self.is_alive = True
        self.is_vanished = False  # alive or not, nobody can tell
        self.is_paused = False
        self.asked_to_leave: float | None = None
        self.has_succeeded = False
        self.pauses_s = 0.0  # how long it was paused, in all
        self.answered = world.clock.now  # when the member last answered its training thread
        self.began = world.clock.now
        self._offset = world.chance.uniform(0.0, 1000.0)
        self._backlog: list[Callable[[], None]] = []
        status = MemberStatus(
            index=index,
            instance=instance,
            incarnation=self.incarnation,
            host=host,
            bus=BUS_PORT,
            meeting=1,
        )
        self.member: BusMember = world.make_member(
            status, roster, minimum=world.story.minimum, now=self.now
        )
        self.trainer: Trainer | None = None
        self._tick()

    @property
    def now(self) -> float:
        return self.world.clock.now + self._offset

    def step_clock(self, by: float) -> None:
        self._offset += by

    def run(self, call: Callable[[], None]) -> None:
        """Call something in this process: now, or when it goes on after a pause."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._backlog.append(call)
        else:
            call()

    def after(self, delay: float, call: Callable[[], None]) -> None:
        self.world.clock.after(delay, lambda: self.run(call))

    def handle(self, event: Event) -> None:
        """Let the member take an event, and carry out its instructions."""
        self.run(lambda: self._handle(event))

    def _handle(self, event: Event) -> None:
        for instruction in self.member.handle(event, self.now):
            if isinstance(instruction, Deliver):
                self.answered = self.world.clock.now
            if not self.is_alive:
                return  # Killed by one of the instructions before.
            if self.is_paused:
                self._backlog.append(partial(self.world.carry_out, self, instruction))
            else:
                self.world.carry_out(self, instruction)

    def _tick(self) -> None:
        if self.is_alive:
            if not self.is_paused:
                self._handle(Tick())
            self.world.clock.after(TICK_S, self._tick)

    def pause(self, seconds: float) -> None:
        if self.is_alive and not self.is_paused:
            self.is_paused = True
            self.world.clock.after(seconds, self._resume)

    def _resume(self) -> None:
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        while backlog and self.is_alive:
            backlog.pop(0)()
            if self.is_paused:
                self._backlog = [*backlog, *self._backlog]
                return
