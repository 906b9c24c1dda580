"""Ways to look for trouble: at random, at every write in turn, and by comparison.

All of them return results for others to count; none prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from swell.sim.invariants import Violation
from swell.sim.plan import Fault, FaultKind
from swell.sim.scenario import Scenario, Subject
from swell.sim.trial import Result, try_faults, try_seed

# What is done at each write of the reference run.
AT_EVERY_WRITE = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.TIMEOUT_AFTER)


def scenario_of(subject: Subject, seed: int) -> Scenario:
    """Seeds go round the scenarios."""
    return subject.scenarios[seed % len(subject.scenarios)]


def search_at_random(subject: Subject, seeds: range) -> Iterator[Result]:
    for seed in seeds:
        yield try_seed(subject, scenario_of(subject, seed), seed)


def search_every_write(
    subject: Subject, scenario: Scenario, seed: int, whose: str = ""
) -> Iterator[Result]:
    """The faultless run first; then, for each write in it, one run for each thing done to it.

    `whose` names the component whose writes are meant; all of them by default.

    Every run is also compared with the faultless one: a fault may cost time, but must not change
    what comes out.
    """
    reference = try_faults(subject, scenario, seed)
    yield reference
    if not reference.violations:
        for fault in faults_at_writes(reference, whose):
            yield try_against(subject, reference, fault)


def faults_at_writes(reference: Result, whose: str = "") -> list[Fault]:
    """Everything that is done to the writes of a run, one thing at a time."""
    return [
        Fault(write.site, write.nth, kind, amount=0.2)
        for write in reference.write_sites
        if write.site.startswith(whose)
        for kind in AT_EVERY_WRITE
    ]


def try_against(subject: Subject, reference: Result, fault: Fault) -> Result:
    """The same run with one fault, compared with the one without."""
    scenario = subject.scenario(reference.scenario)
    result = try_faults(subject, scenario, reference.seed, [fault])
    return _compared(result, reference, effects=scenario.steady)


def search_differences(subject: Subject, seeds: range) -> Iterator[Result]:
    """Random runs compared with faultless ones, where the end depends on no timing.

    Faults may change how often things are done, but not what comes of it.
    """
    for seed in seeds:
        scenario = scenario_of(subject, seed)
        if scenario.steady:
            reference = try_faults(subject, scenario, seed)
            yield _compared(try_seed(subject, scenario, seed), reference, effects=False)


def _compared(result: Result, reference: Result, *, effects: bool) -> Result:
    """A result with its differences from the faultless run counted as violations."""
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
    """How a planted bug was found."""

    mutant: str
    seeds: int  # tried until then, this one included
    result: Result

    @property
    def invariant(self) -> str:
        return self.result.violations[0].invariant


def kills_of(mutant: Subject, name: str, seeds: range) -> Iterator[Kill]:
    """The seeds that show a planted bug, as they are found."""
    for n_tried, result in enumerate(search_at_random(mutant, seeds), 1):
        if result.violations:
            yield Kill(name, n_tried, result)
