"""The operator of the simulated job: it starts, lists, signals and replaces processes.

It never lies: an instance is raised only after the process before it is dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from swell.train.bus.events import LeaveAsked, RosterRead
from swell.train.bus.messages import Roster
from tests.sim.train.process import SimulatedProcess
from tests.sim.train.training import Trainer

if TYPE_CHECKING:
    from tests.sim.train.world import BusWorld

GRACE_S = 30.0


@dataclass(eq=False, slots=True)
class Slot:
    """The pod of one index."""

    instance: int = 0
    host: str = ""
    process: SimulatedProcess | None = None
    is_starting: bool = False
    is_unreachable: bool = False  # its machine has vanished

    @property
    def is_occupied(self) -> bool:
        return self.process is not None and self.process.is_alive


class SimulatedOperator:
    """Wants a number of processes, and tells them of each other by a folder that lags."""

    def __init__(self, world: BusWorld) -> None:
        self._world = world
        self._slots: dict[int, Slot] = {}
        self._n_addresses = 0
        self._versions: list[tuple[float, Roster]] = []
        self._epoch = 0
        self._ended: list[tuple[float, SimulatedProcess]] = []
        self._succeeded: set[tuple[int, int]] = set()
        self.size = 0

    def living(self) -> list[SimulatedProcess]:
        slots = [self._slots[index] for index in sorted(self._slots)]
        return [s.process for s in slots if s.process is not None and s.process.is_alive]

    def just_ended(self, within_s: float) -> list[SimulatedProcess]:
        """The processes whose death nobody can have seen when the last messages were sent."""
        return [p for at, p in self._ended if self._world.clock.now - at < within_s]

    def process(self, index: int) -> SimulatedProcess | None:
        slot = self._slots.get(index)
        return slot.process if slot is not None and slot.is_occupied else None

    def resolve(self, host: str) -> tuple[SimulatedProcess | None, str]:
        """The process at a host; or how an attempt to reach it fails."""
        if host.startswith("n"):
            slot = self._slots.get(int(host[1:]))
            if slot is None or not slot.host:
                return None, "unnamed" if self._world.story.has_addresses else "refused"
            return self._answer_of(slot)
        for slot in self._slots.values():
            if slot.host == host:
                return self._answer_of(slot)
        return None, "silent"  # Pods take their addresses with them.

    def _answer_of(self, slot: Slot) -> tuple[SimulatedProcess | None, str]:
        has_ended = slot.process is not None and not slot.is_occupied
        if slot.is_unreachable or (has_ended and self._world.story.ends_are_silent):
            return None, "silent"
        return (slot.process, "") if slot.is_occupied else (None, "refused")

    # ---- sizes

    def resize(self, size: int) -> None:
        self._epoch += 1
        self.size = size
        for index in range(size):
            self._slots.setdefault(index, Slot())
        self._publish()
        for index, slot in sorted(self._slots.items()):
            if index >= size and slot.process is not None:
                process = slot.process
                delay = self._world.chance.uniform(0.0, 1.0)
                self._world.clock.after(delay, partial(self.terminate, process))
        self._fill()

    def _fill(self) -> None:
        for index in range(self.size):
            slot = self._slots[index]
            if not slot.is_occupied and not slot.is_starting and not slot.is_unreachable:
                self._start_soon(index, in_place=False, most_s=2.0)

    def _start_soon(self, index: int, *, in_place: bool, most_s: float) -> None:
        self._slots[index].is_starting = True
        if self._world.is_finished:
            return  # A pod that is being made when the last step is done starts all the same.
        delay = self._world.chance.uniform(0.2, most_s)
        self._world.clock.after(delay, lambda: self._start(index, in_place=in_place))

    def _start(self, index: int, *, in_place: bool) -> None:
        slot, world = self._slots[index], self._world
        slot.is_starting = slot.is_unreachable = False
        if index >= self.size or slot.is_occupied:
            return
        if not in_place or not slot.instance:
            slot.instance += 1
            self._n_addresses += 1
            slot.host = f"a{self._n_addresses}" if world.story.has_addresses else f"n{index}"
            self._publish()
        seen = world.clock.now - world.chance.uniform(0.0, world.story.lag_s)
        roster = [roster for at, roster in self._versions if at <= seen] or [self._versions[0][1]]
        slot.process = SimulatedProcess(world, index, slot.instance, slot.host, roster[-1])
        slot.process.trainer = Trainer(slot.process)
        world.tell(f"{slot.process.name} starts")
        # The folder goes on changing for it, too.
        for at, later in self._versions:
            if at > seen:
                delay = world.chance.uniform(0.0, world.story.lag_s)
                slot.process.after(delay, partial(slot.process.handle, RosterRead(later)))

    def _publish(self) -> None:
        counts = tuple(self._slots[index].instance for index in sorted(self._slots))
        former = tuple(
            (index, slot.host)
            for index, slot in sorted(self._slots.items())
            # One whose machine has vanished may live, as far as anybody can tell.
            if index >= self.size and (slot.is_occupied or slot.is_unreachable)
        )
        hosts = tuple(f"n{i}" for i in range(self.size))
        roster = Roster(self._epoch, hosts, counts, former, tuple(sorted(self._succeeded)))
        self._versions.append((self._world.clock.now, roster))
        for process in self.living():
            delay = self._world.chance.uniform(0.0, self._world.story.lag_s)
            process.after(delay, partial(process.handle, RosterRead(roster)))

    # ---- ends of processes

    def terminate(self, process: SimulatedProcess) -> None:
        """SIGTERM, and the end after the grace period."""
        if process.is_alive and process.asked_to_leave is None:
            self._world.tell(f"{process.name} is told to leave")
            process.asked_to_leave = self._world.clock.now
            process.handle(LeaveAsked())
            if process.trainer is not None:
                process.trainer.break_off()
            self._world.clock.after(GRACE_S, lambda: self._end_grace(process))

    def _end_grace(self, process: SimulatedProcess) -> None:
        if process.is_alive:
            self._world.rules.overstayed(process)
            self.kill(process)

    def kill(self, process: SimulatedProcess) -> None:
        if not process.is_alive:
            return
        self._world.tell(f"{process.name} is killed")
        in_place = process.asked_to_leave is None and self._world.chance.random() < 0.4
        self._end(process)
        self._replace(process.index, in_place=in_place)

    def exited(self, process: SimulatedProcess) -> None:
        if process.is_alive:
            self._world.tell(f"{process.name} exits")
            if process.has_succeeded:
                self._succeeded.add((process.index, process.instance))
            self._end(process)
            self._replace(process.index, in_place=False)

    def vanish(self, process: SimulatedProcess, *, for_s: float, dies: bool) -> None:
        """Nobody reaches the machine of a process any more, which may be dead or not."""
        world, slot = self._world, self._slots[process.index]
        if not process.is_alive or process.is_vanished:
            return
        world.tell(f"{process.name} vanishes, {'dead' if dies else 'alive'}")
        process.is_vanished = slot.is_unreachable = True
        if dies:
            process.is_alive = False
            self._ended.append((world.clock.now, process))
            if process.trainer is not None:
                process.trainer.drop_out()
            slot.is_starting = True
            world.clock.after(for_s, lambda: self._start(process.index, in_place=False))
            return

        def come_back() -> None:
            process.is_vanished = False
            if slot.process is process:
                slot.is_unreachable = False
                if not process.is_alive:
                    self._replace(process.index, in_place=False)
            world.network.heal(process)

        world.clock.after(for_s, come_back)

    def _end(self, process: SimulatedProcess) -> None:
        process.is_alive = False
        self._ended.append((self._world.clock.now, process))
        if process.trainer is not None:
            process.trainer.drop_out()
        self._world.network.die(process)
        if process.index >= self.size or process.has_succeeded:
            self._publish()

    def _replace(self, index: int, *, in_place: bool) -> None:
        if index < self.size and not self._slots[index].is_unreachable:
            self._start_soon(index, in_place=in_place, most_s=3.0 if in_place else 5.0)
