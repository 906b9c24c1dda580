"""One simulated cluster: server, nodes, users, nemesis, and the processes under test.

A run has two phases. While faults are on, only safety is checked. Then the faults stop, all
liveness checks must hold in time, and after that no process under test may write any more.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from swell.api.kinds import LEASES
from swell.runtime.cluster import Cluster
from swell.sim.actors.nemesis import Nemesis
from swell.sim.actors.pod_lifecycle import ACTOR as KUBELET
from swell.sim.actors.pod_lifecycle import Kubelet
from swell.sim.chance import Chance
from swell.sim.faults.network import SimulatedNetwork
from swell.sim.faults.plan import FaultInjector, FaultSource
from swell.sim.invariants import InvariantChecker
from swell.sim.loop import VirtualClock
from swell.sim.observation import Trace
from swell.sim.process import SimulatedProcess
from swell.sim.scenario import Scenario, SimulationSubject
from swell.sim.server import SimulatedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from swell.cluster.embedded.storage import Commit
    from swell.sim.actors.fleet import Fleet

_POLL_S = 5.0  # between two evaluations of the liveness checks
_LOOK_S = 0.5  # between two looks of a waiting user
_MINUTE_S = 60.0
# The quiet phase is tried again when another actor wrote meanwhile, which may need an answer.
_QUIET_TRIES = 3
# More writes than these that time alone gives a reason for, one after the other, are no rest.
_DUE_MAX = 20
_LEASES = str(LEASES)


class SimulatedWorld:
    """All parts of one run. It must be created and used inside a virtual loop."""

    def __init__(
        self,
        subject: SimulationSubject,
        scenario: Scenario,
        seed: int,
        source: FaultSource,
        *,
        keep: bool,
    ) -> None:
        self.subject = subject
        self.scenario = scenario
        self.chance = Chance(seed)
        self.clock = VirtualClock()
        self.fleet: Fleet | None = None  # for subjects that have nodes
        self.server = SimulatedServer(self.clock, self.chance, subject.kinds, subject.gates)
        self.storage = self.server.storage
        self.injector = FaultInjector(source)
        self.network = SimulatedNetwork(self.injector, self.chance, self.clock, self.server)
        self.trace = Trace(self.clock.monotonic, keep=keep)
        self.checker = InvariantChecker(
            subject.safety(self), subject.liveness(self), self.clock.monotonic
        )
        self.processes = [
            SimulatedProcess(f"{name}-{i}", main, self.connect, self.network, self.chance)
            for name, main in subject.components.items()
            for i in range(scenario.replicas)
        ]
        self.writes: Counter[str] = Counter()  # by actor, leases aside
        self._issued: dict[str, int] = {}  # the store's version by site, when last sent
        self.faults_ended_s: float | None = None  # when they stopped; None while they are on
        self._script_ended = False
        self._tasks: list[asyncio.Task[None]] = []
        # Times of the calls of the last minute, by process under test.
        self._recent: dict[str, deque[float]] = {p.name: deque() for p in self.processes}
        # The trace comes before the checks, so that it has the commit that a check reports.
        self.storage.on_commit += [self._count, self.trace.on_commit, self.checker.on_commit]
        self.injector.on_fault_taken.append(self.trace.on_fault)
        self.network.on_call += [self.trace.on_call, self._note_issue, self._bound_calls]

    def connect(self, actor: str) -> Cluster:
        """Returns a client without faults, for actors that are not under test."""
        return self.server.connect(actor)

    def is_subject(self, actor: str) -> bool:
        """Whether an actor is a process under test."""
        return actor in self._recent

    def issued_version(self, site: str) -> int:
        """Returns the store's version at the time a write was last sent.

        The write may land much later, but its sender could only know what was true by then.
        """
        return self._issued[site]

    async def until(self, condition: Callable[[], bool], within_s: float = 60.0) -> bool:
        """Wait for a condition. Returns whether it became true in time."""
        deadline_s = self.clock.monotonic() + within_s
        while not condition():
            if self.clock.monotonic() >= deadline_s:
                return False
            await self.clock.sleep(_LOOK_S)
        return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of the world. If it fails, the run fails."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._on_done)
        self._tasks.append(task)

    async def run(self) -> None:
        """Run both phases. The checker has the violations."""
        async with self._actors():
            await self.checker.wait_broken(self.scenario.faulty_s)
            self._stop_faults()
            if not self.checker.violations and await self._settles():
                await self._stays_quiet()

    @asynccontextmanager
    async def _actors(self) -> AsyncIterator[None]:
        if self.subject.behavior_of is not None:
            behavior_of = self.subject.behavior_of
            kubelet = Kubelet(
                self.connect(KUBELET), self.clock, self.spawn, lambda pod: behavior_of(self, pod)
            )
            self.storage.on_commit.append(kubelet.on_commit)
        try:
            for controller in self.server.controllers():
                self.spawn(controller)
            for process in self.processes:
                self.spawn(process.run())
            disturbances = self.subject.disturbances(self)
            self.spawn(Nemesis(self.injector, self.clock, disturbances).run())
            self.spawn(self._play())
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _play(self) -> None:
        await self.scenario.script(self)
        self._script_ended = True

    def _missing(self) -> list[tuple[str, str]]:
        return self.checker.missing() if self._script_ended else [("script", "has not ended")]

    def _stop_faults(self) -> None:
        self.trace.note("faults off")
        self.injector.on = False
        self.faults_ended_s = self.clock.monotonic()
        self.network.refused_until_s.clear()
        for process in self.processes:
            process.heal()

    async def _settles(self) -> bool:
        """Whether all liveness checks hold in time; what is missing is reported."""
        deadline_s = self.clock.monotonic() + self.scenario.settle_s
        while missing := self._missing():
            if self.clock.monotonic() >= deadline_s:
                for rule, what in missing:
                    self.checker.report(rule, what)
                return False
            if await self.checker.wait_broken(_POLL_S):
                return False
        return True

    async def _stays_quiet(self) -> None:
        if await self._passes_due() or await self.checker.wait_broken(self.scenario.rest_s):
            return
        for _ in range(_QUIET_TRIES):
            before, before_in_all = self._subject_writes(), self.writes.total()
            if await self.checker.wait_broken(self.scenario.quiet_s):
                return
            n_writes = self._subject_writes() - before
            if n_writes == self.writes.total() - before_in_all:
                break  # otherwise another actor, such as a slow node, gave a reason to write
        if n_writes:
            self.checker.report("quiet", f"{n_writes} writes though nothing changed")
        for rule, what in self.checker.missing():
            self.checker.report(rule, f"{what}, after it had been right")

    async def _passes_due(self) -> bool:
        """Wait until time alone gives no reason to write for as long as it is to be quiet.

        Returns whether a rule was broken meanwhile.
        """
        length_s = self.scenario.rest_s + _QUIET_TRIES * self.scenario.quiet_s
        for _ in range(_DUE_MAX):
            due_s = self.subject.next_due_s(self)
            wait_s = math.inf if due_s is None else due_s - self.clock.monotonic()
            if wait_s > length_s:
                break
            if await self.checker.wait_broken(max(wait_s, 0.0) + _POLL_S):
                return True
        return False

    def _subject_writes(self) -> int:
        return sum(self.writes[process.name] for process in self.processes)

    def _count(self, commit: Commit) -> None:
        # Leases are renewed for ever, so they do not count as activity.
        if commit.collection != _LEASES:
            self.writes[commit.actor] += 1

    def _note_issue(self, _: str, site: str) -> None:
        self._issued[site] = self.storage.version

    def _bound_calls(self, actor: str, site: str) -> None:
        """Report a process that makes too many calls in a minute: it is in a hot loop."""
        recent = self._recent[actor]
        now_s = self.clock.monotonic()
        recent.append(now_s)
        while recent[0] < now_s - _MINUTE_S:
            recent.popleft()
        if len(recent) > self.subject.calls_per_min_max:
            self.checker.report("hot loop", f"{len(recent)} calls in a minute, last: {site}")

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.checker.report("alive", f"{type(error).__name__}: {error}")
