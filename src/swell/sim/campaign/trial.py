"""One run of a subject in a scenario, from a seed or from a plan, and its result."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swell.api.kinds import EVENTS, LEASES, RECORDED_EVENTS
from swell.cluster.embedded.storage import Commit, Stored
from swell.sim.chance import Chance
from swell.sim.faults.cluster import WRITE_VERBS
from swell.sim.faults.plan import DrawnFaults, Fault, FaultPlan, FaultSource, PlannedFaults
from swell.sim.faults.swarm import draw_rates
from swell.sim.invariants import Violation
from swell.sim.loop import DeadlockError, LivelockError, run
from swell.sim.scenario import USER, Scenario, SimulationSubject
from swell.sim.world import SimulatedWorld

_LEASES = str(LEASES)
# Events and leases are no effects: a process that crashes may not have emitted its events.
_NOT_COUNTED = frozenset({_LEASES, str(EVENTS), str(RECORDED_EVENTS)})


@dataclass(frozen=True, slots=True)
class WriteSite:
    """The n-th write of a process under test at one site."""

    site: str
    nth: int


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a run."""

    subject: str
    scenario: str
    seed: int
    violations: tuple[Violation, ...]
    faults: tuple[Fault, ...]
    hits: Counter[str]
    crashes: int
    evaluations: int
    commits: int
    calls: int
    n_submitted: int  # objects users created
    virtual_s: float
    digest: str
    end_state: object
    effects: Counter[str]  # creates and deletes by the subject, per kind
    write_sites: tuple[WriteSite, ...]
    trace: tuple[str, ...]

    def breaks(self, invariant: str) -> bool:
        return any(violation.invariant == invariant for violation in self.violations)


def try_seed(
    subject: SimulationSubject, scenario: Scenario, seed: int, *, keep_trace: bool = False
) -> TrialResult:
    """Run with random faults, at the rates of this seed."""
    chance = Chance(seed)
    source = DrawnFaults(chance, draw_rates(chance, scenario.rates_max))
    return _try(subject, scenario, seed, source, keep_trace=keep_trace)


def try_faults(
    subject: SimulationSubject,
    scenario: Scenario,
    seed: int,
    faults: Iterable[Fault] = (),
    *,
    keep_trace: bool = False,
) -> TrialResult:
    """Run with exactly these faults; the seed decides everything else."""
    return _try(subject, scenario, seed, PlannedFaults(faults), keep_trace=keep_trace)


def replay(subject: SimulationSubject, plan: FaultPlan, *, keep_trace: bool = False) -> TrialResult:
    """Run a written plan again."""
    scenario = subject.scenario(plan.scenario)
    return try_faults(subject, scenario, plan.seed, plan.faults, keep_trace=keep_trace)


def shrink_faults(
    subject: SimulationSubject, result: TrialResult, invariant: str
) -> tuple[Fault, ...]:
    """Returns the least faults of a run that still break the same rule."""
    scenario = subject.scenario(result.scenario)

    def fails(faults: Sequence[Fault]) -> bool:
        return try_faults(subject, scenario, result.seed, faults).breaks(invariant)

    return tuple(shrink(result.faults, fails))


def _try(
    subject: SimulationSubject,
    scenario: Scenario,
    seed: int,
    source: FaultSource,
    *,
    keep_trace: bool,
) -> TrialResult:
    made: list[_TrialRecorder] = []

    async def main() -> None:
        world = SimulatedWorld(subject, scenario, seed, source, keep=keep_trace)
        made.append(_TrialRecorder(world))
        await world.run()
        made[0].finish()

    try:
        with _logs_in_trace(made, keep=keep_trace):
            run(main())
    # The run cannot go on, but its trace and its faults are still of use.
    except (DeadlockError, LivelockError) as error:
        made[0].world.checker.violations.append(Violation("alive", str(error), 0.0))
    return made[0].result(seed)


@contextlib.contextmanager
def _logs_in_trace(made: list[_TrialRecorder], *, keep: bool) -> Iterator[None]:
    """Add the logs of components to the trace, or switch them off if it is not kept."""
    handler = _TraceHandler(made)
    root = logging.getLogger("swell")
    former = root.level, root.propagate
    root.addHandler(handler)
    root.setLevel(logging.INFO if keep else logging.CRITICAL + 1)
    root.propagate = False  # pytest and the campaign would print them
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(former[0])
        root.propagate = former[1]


class _TraceHandler(logging.Handler):
    """Writes log records to the trace of a run."""

    def __init__(self, made: list[_TrialRecorder]) -> None:
        super().__init__()
        self._made = made

    def emit(self, record: logging.LogRecord) -> None:
        if self._made:
            self._made[0].world.trace.log(record.getMessage())


class _TrialRecorder:
    """Collects the result of a run while it runs."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self._effects: Counter[str] = Counter()
        self._sites: list[WriteSite] = []
        self._n_commits = 0
        self._n_submitted = 0
        self._end_state: object = None
        self._virtual_s = 0.0
        world.storage.on_commit.append(self._on_commit)
        world.network.on_call.append(self._on_call)

    def finish(self) -> None:
        self._virtual_s = self.world.clock.monotonic()
        self._end_state = self.world.subject.end_state(self.world)

    def result(self, seed: int) -> TrialResult:
        world = self.world
        return TrialResult(
            subject=world.subject.name,
            scenario=world.scenario.name,
            seed=seed,
            violations=tuple(world.checker.violations),
            faults=tuple(world.injector.taken),
            hits=world.injector.hits,
            crashes=sum(process.crashes for process in world.processes),
            evaluations=world.checker.evaluations,
            commits=self._n_commits,
            calls=sum(world.network.calls.values()),
            n_submitted=self._n_submitted,
            virtual_s=self._virtual_s,
            digest=world.trace.digest(),
            end_state=self._end_state,
            effects=self._effects,
            write_sites=tuple(self._sites),
            trace=tuple(world.trace.lines),
        )

    def _on_commit(self, commit: Commit) -> None:
        self._n_commits += 1
        self._n_submitted += commit.actor == USER and commit.before is None
        if not self.world.is_subject(commit.actor) or commit.collection in _NOT_COUNTED:
            return
        if commit.before is None:
            self._effects[f"create {commit.collection}"] += 1
        elif not _is_ending(commit.before) and (commit.after is None or _is_ending(commit.after)):
            self._effects[f"delete {commit.collection}"] += 1

    def _on_call(self, _: str, site: str) -> None:
        verb, kind = site.split(" ")[1:3]
        if verb in WRITE_VERBS and kind != _LEASES:
            self._sites.append(WriteSite(site, self.world.injector.count(site)))


def _is_ending(stored: Stored) -> bool:
    return "deletionTimestamp" in stored.metadata


T = TypeVar("T")


def shrink(
    items: Sequence[T], fails: Callable[[Sequence[T]], bool], *, tries_max: int = 2000
) -> list[T]:
    """Returns a sub-list, in order, that still fails and of which no single item can be dropped.

    `fails` must hold for `items`. The search is delta debugging (Zeller's ddmin): drop ever smaller
    chunks, and start again with larger ones after each success. After `tries_max` tries the best
    list so far is returned.
    """
    best = list(items)
    chunk = max(1, len(best) // 2)
    tries = 0
    # Without any fault: the scenario or the seed alone is enough.
    if best and fails([]):
        return []
    while best and tries < tries_max:
        dropped = False
        start = 0
        while start < len(best) and tries < tries_max:
            candidate = best[:start] + best[start + chunk :]
            tries += 1
            if fails(candidate):
                best = candidate
                dropped = True
            else:
                start += chunk
        if not dropped and chunk == 1:
            break
        if not dropped:
            chunk //= 2
        chunk = max(1, min(chunk, len(best) // 2 or 1))
    return best
