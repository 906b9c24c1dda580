"""Searches for failing runs: at random, at every write in turn, and by comparison.

They return results and print nothing. The parallel ones fork worker processes, because a subject
holds functions, which cannot be sent to a process; their results come in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, TypeVar

from swell.sim.campaign.trial import TrialResult, try_faults, try_seed
from swell.sim.faults.plan import Fault, FaultKind
from swell.sim.invariants import Violation
from swell.sim.scenario import Scenario, SimulationSubject

# The faults tried at each write of the run without faults.
AT_EVERY_WRITE = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.TIMEOUT_AFTER)

# Part of the sites of writes to a status, where intents are recorded.
RECORD = "/status "
# A pause of about a minute: as long as nodes are silent, and leases far outlived.
PAUSE_AMOUNT = 0.6


def scenario_of(subject: SimulationSubject, seed: int) -> Scenario:
    """Returns the scenario of a seed: seeds take the scenarios in turn."""
    return subject.scenarios[seed % len(subject.scenarios)]


def search_at_random(subject: SimulationSubject, seeds: range) -> Iterator[TrialResult]:
    for seed in seeds:
        yield try_seed(subject, scenario_of(subject, seed), seed)


def search_every_write(
    subject: SimulationSubject, scenario: Scenario, seed: int, whose: str = ""
) -> Iterator[TrialResult]:
    """Run without faults first; then once for each write of that run and each kind of fault.

    `whose` names the component whose writes are tried, by default all. Every run is compared with
    the one without faults: a fault may cost time, but must not change the end state.
    """
    reference = try_faults(subject, scenario, seed)
    yield reference
    if not reference.violations:
        for fault in faults_at_writes(reference, whose):
            yield try_against(subject, reference, fault)


def faults_at_writes(reference: TrialResult, whose: str = "") -> list[Fault]:
    """Returns all faults at the writes of a run, for one run each."""
    return [
        # The amount makes a crashed process restart after about three seconds.
        Fault(write.site, write.nth, kind, amount=0.2)
        for write in reference.write_sites
        if write.site.startswith(whose)
        for kind in AT_EVERY_WRITE
    ]


def try_against(subject: SimulationSubject, reference: TrialResult, fault: Fault) -> TrialResult:
    """Run again with one fault, and compare with the run without it."""
    scenario = subject.scenario(reference.scenario)
    result = try_faults(subject, scenario, reference.seed, [fault])
    return _compared(result, reference, effects=scenario.steady)


def search_differences(subject: SimulationSubject, seeds: range) -> Iterator[TrialResult]:
    """Compare random runs with runs without faults, in scenarios that do not depend on timing.

    Faults may change how often something is done, but not the end state.
    """
    for seed in seeds:
        scenario = scenario_of(subject, seed)
        if scenario.steady:
            reference = try_faults(subject, scenario, seed)
            yield _compared(try_seed(subject, scenario, seed), reference, effects=False)


def _compared(result: TrialResult, reference: TrialResult, *, effects: bool) -> TrialResult:
    """Returns the result, with differences from the run without faults as violations."""
    found: list[Violation] = []
    if not result.violations:
        if result.end_state != reference.end_state:
            message = f"{result.end_state} instead of {reference.end_state}"
            found.append(Violation("same end", message, result.virtual_s))
        if effects and result.effects != reference.effects:
            message = f"{dict(result.effects)} instead of {dict(reference.effects)}"
            found.append(Violation("same effects", message, result.virtual_s))
    return replace(result, violations=(*result.violations, *found))


@dataclass(frozen=True, slots=True)
class Kill:
    """The run that found a planted bug."""

    mutant: str
    seeds: int  # tried until then, this one included
    result: TrialResult

    @property
    def invariant(self) -> str:
        return self.result.violations[0].invariant


def kills_of(mutant: SimulationSubject, name: str, seeds: range) -> Iterator[Kill]:
    """Returns the runs that find a planted bug, one after the other."""
    for n_tried, result in enumerate(search_at_random(mutant, seeds), 1):
        if result.violations:
            yield Kill(name, n_tried, result)


def kills_by_pauses(mutant: SimulationSubject, name: str, seeds: range) -> Iterator[Kill]:
    """Returns runs that find a planted bug by one pause, between a record and the act it is for.

    At random the process seldom stands still at the one write among hundreds where it matters.
    """
    n_tried = 0
    for seed in seeds:
        for scenario in mutant.scenarios:
            reference = try_faults(mutant, scenario, seed)
            records = [one for one in reference.write_sites if RECORD in one.site]
            pauses = (Fault(w.site, w.nth, FaultKind.PAUSED, PAUSE_AMOUNT) for w in records)
            for pause in pauses:
                n_tried += 1
                result = try_faults(mutant, scenario, seed, [pause])
                if result.violations:
                    yield Kill(name, n_tried, result)


T = TypeVar("T")

# Runs that a worker takes at once. For fewer runs than this per worker, forking costs more.
_CHUNK = 20
_worker_function: list[Callable[[Any], TrialResult]] = []  # set in each worker process


def search_in_parallel(
    subject: SimulationSubject, seeds: range, n_workers: int
) -> Iterator[TrialResult]:
    """Returns the same results as `search_at_random`, sooner."""

    def try_one(seed: int) -> TrialResult:
        return try_seed(subject, scenario_of(subject, seed), seed)

    yield from _run_in_parallel(try_one, seeds, n_workers)


def search_writes_in_parallel(
    subject: SimulationSubject, scenario: Scenario, seed: int, whose: str, n_workers: int
) -> Iterator[TrialResult]:
    """Returns the same results as `search_every_write`, sooner."""
    reference = try_faults(subject, scenario, seed)

    def try_one(fault: Fault) -> TrialResult:
        return try_against(subject, reference, fault)

    yield reference
    if not reference.violations:
        yield from _run_in_parallel(try_one, faults_at_writes(reference, whose), n_workers)


def _run_in_parallel(
    try_one: Callable[[T], TrialResult], what: Sequence[T], n_workers: int
) -> Iterator[TrialResult]:
    if n_workers < 2 or len(what) < _CHUNK * n_workers:
        yield from map(try_one, what)
        return
    with ProcessPoolExecutor(
        n_workers, get_context("fork"), initializer=_worker_function.append, initargs=(try_one,)
    ) as pool:
        yield from pool.map(_try, what, chunksize=_CHUNK)


def _try(one: object) -> TrialResult:
    return _worker_function[-1](one)
