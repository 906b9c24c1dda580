"""Carries out what `decide` decides: talks to the group, starts and stops workers, shows output."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType

from swell.api.injection import REPORT_FILE_VARIABLE
from swell.train.bus.plan import Departure, GroupPlan, Held
from swell.train.group import Group
from swell.train.launch import decide
from swell.train.launch.arguments import LaunchOptions
from swell.train.launch.output import Outputs
from swell.train.launch.reports import ReportFile
from swell.train.launch.rollcall import call_roll
from swell.train.launch.starts import Starter, StartError
from swell.train.launch.variables import Seat, Seating, worker_variables

# A framework that finds nobody at the meeting point tries again after a second or more: the other
# workers are started when the first listens. A script may do much else before it does.
_LISTENS_WITHIN_S = 3.0
# The group agrees on steps to change at. The steps of a launcher are slices of time since the plan
# came: all members count alike, and none falls behind.
_SLICE_S = 0.02
# A successor's launcher is there within this where its framework is not loaded beforehand; to load
# one takes longer, twice if the successor breaks off the first start.
_AWAIT_DUE_S = 3.0


class Signals:
    """The signals that were caught. All of them ask to leave; the group hears of SIGTERM only."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.n_caught = 0
        self._n_own = 0
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def catch(self, numbers: tuple[signal.Signals, ...]) -> None:
        """Catch these from now on. Handlers that the group has set are called as before."""
        for number in numbers:
            before = signal.signal(number, self._caught)
            if callable(before) and before is not signal.default_int_handler:
                self._before[number] = before

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if number in self._before:
            self._before[number](number, frame)
        if number == signal.SIGTERM and self._n_own:
            self._n_own -= 1
            return
        self.last, self.n_caught = number, self.n_caught + 1
        if number != signal.SIGTERM:
            self._n_own += 1
            os.kill(os.getpid(), signal.SIGTERM)

    def is_any(self) -> bool:
        return self.n_caught > 0


@dataclass(slots=True)
class Agent:
    """The launcher of one member."""

    options: LaunchOptions
    group: Group
    starter: Starter
    outputs: Outputs
    signals: Signals
    environ: Mapping[str, str]
    index: int = 0
    secret: bytes = b""
    servers: tuple[str, ...] = ()
    report: ReportFile | None = None
    # How many members there should be, by the members folder.
    count_listed: Callable[[], int] = lambda: 0
    _plan: GroupPlan | None = None
    _seating: Seating | None = None
    _planned_at: float = 0.0
    _phase: decide.LaunchPhase = decide.LaunchPhase.JOINING
    _complaint: str = ""
    _events: deque[decide.Event] = field(default_factory=deque)

    def run(self) -> int:
        """Launch until all is trained, or this member leaves, or has failed; the exit code."""
        is_warm = self.options.is_warm
        rules = decide.LaunchRules(
            n_local=self.options.n_local,
            max_restarts=self.options.max_restarts,
            shutdown_s=self.options.shutdown_s,
            change_s=self.options.change_s,
            # A warm member takes longer to come than workers take to start, a plain one as long.
            await_due_s=0.0 if is_warm or self.options.framework == "plain" else _AWAIT_DUE_S,
        )
        state, instructions = decide.begin()
        while True:
            self._phase = state.phase
            for instruction in instructions:
                if isinstance(instruction, decide.Exit):
                    self.outputs.show(to_the_end=True)
                    return instruction.code
                self._carry_out(instruction)
            if not self._events:
                time.sleep(self.options.interval_s)
                self._look(time.monotonic())
            event = self._events.popleft()
            state, instructions = decide.advance(state, event, time.monotonic(), rules)

    def _carry_out(self, instruction: decide.Instruction) -> None:
        match instruction:
            case decide.JoinGroup():
                self.outputs.show(to_the_end=True)
                self._events.append(self._join(instruction.generation))
            case decide.StartWorkers():
                self._start(instruction.n_restarts)
            case decide.SignalWorkers():
                self.starter.signal(instruction.signal)
            case decide.ReportFailure():
                self.group.failed(instruction.generation)
            case decide.FinishTraining():
                self.group.finish()
            case decide.Say():
                say(instruction.text)
            case decide.Exit():
                raise AssertionError("the loop ends with it")

    def _join(self, generation: int) -> decide.Event:
        answer = self.group.join(Held(generation, 0), trained=generation > 0)
        if isinstance(answer, Departure):
            return decide.Departed(is_finished=answer is Departure.FINISHED)
        plan, rank = answer, answer.rank_of(self.index)
        seats = self._seats(plan, rank)
        if seats is None:
            return decide.Unmet(plan.generation)
        self._plan, self._planned_at = plan, time.monotonic()
        self._seating = Seating(plan.generation, seats, rank)
        say(
            f"generation {plan.generation}: member {rank} of {plan.size}, "
            f"{self._seating.world_size} workers, meeting at {self._seating.endpoints[0]}"
        )
        return decide.Planned(
            plan.generation,
            frozenset(member.incarnation for member in plan.members),
            n_due=max(0, self.count_listed() - plan.size),
        )

    def _seats(self, plan: GroupPlan, rank: int) -> tuple[Seat, ...] | None:
        ports = free_ports(self.options.n_local)
        if plan.size == 1:
            return (Seat(plan.members[0].host, ports),)
        return call_roll(plan, rank, ports, self.secret, lambda: self._is_over(plan.generation))

    def _is_over(self, generation: int) -> bool:
        return self.group.is_aborted(generation) or self.signals.is_any()

    def _start(self, n_restarts: int) -> None:
        seating = self._seating
        if seating is None:
            raise AssertionError("a plan comes before its workers")
        ranks = {i: seating.first_rank + i for i in range(self.options.n_local)}
        to = self.outputs.destinations(ranks, seating.generation)
        for local_rank, rank in ranks.items():
            if rank > 0 and local_rank <= 1:
                self._wait_for_master(seating)
            environ = worker_variables(
                seating,
                local_rank,
                self.options,
                n_restarts=n_restarts,
                environ=self.environ,
                servers=self.servers,
            )
            try:
                self.starter.start(local_rank, environ, to[local_rank])
            except StartError as error:
                say(f"worker {local_rank} cannot be started: {error}")
                self._events.append(decide.WorkerEnded(local_rank, 1))

    def _wait_for_master(self, seating: Seating) -> None:
        """Wait until the worker of rank 0 listens, unless its start takes seconds anyway."""
        if not self.options.is_warm or self.options.framework == "plain":
            return
        give_up = time.monotonic() + _LISTENS_WITHIN_S
        while time.monotonic() < give_up and not self._is_over(seating.generation):
            try:
                socket.create_connection(seating.master, timeout=0.5).close()
            except OSError:
                time.sleep(0.01)
            else:
                return

    def _look(self, now: float) -> None:
        """Look at the group, then at the workers: a broken group explains a broken worker."""
        may_go_on = True
        generation = self._plan.generation if self._plan else 0
        if self._phase is decide.LaunchPhase.RUNNING:
            may_go_on = self.group.begin(1 + int((now - self._planned_at) / _SLICE_S))
        self._events.append(
            decide.Observed(
                may_go_on=may_go_on,
                is_aborted=self.group.is_aborted(generation),
                is_leaving=self.group.is_leaving or self.signals.is_any(),
                signal=self.signals.last,
                n_signals=self.signals.n_caught,
            )
        )
        self._events += [decide.WorkerEnded(*ended) for ended in self.starter.ended()]
        self.outputs.show()
        self._publish(now)

    def _publish(self, now: float) -> None:
        if self.report is None or self._plan is None:
            return
        report = self.report.read(self._plan, now)
        if report is not None:
            self.group.publish(report)
        if self.report.complaint and self.report.complaint != self._complaint:
            say(f"{REPORT_FILE_VARIABLE}: {self.report.complaint}")
        self._complaint = self.report.complaint


def say(text: str) -> None:
    """Write a sentence to the standard error stream, as one write."""
    sys.stderr.write(f"swell launch: {text}\n")
    sys.stderr.flush()


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that were free a moment ago; other ones with every generation."""
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = tuple(int(one.getsockname()[1]) for one in sockets)
    for one in sockets:
        one.close()
    return ports
