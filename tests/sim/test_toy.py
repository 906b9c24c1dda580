"""The simulator on the toy controller: the correct one never fails, every planted bug is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.sim.campaign import digest, digests_elsewhere, subject_of
from swell.sim.figures import Figures
from swell.sim.plan import FaultKind, read_plan
from swell.sim.scenario import Scenario
from swell.sim.search import (
    scenario_of,
    search_at_random,
    search_differences,
    search_every_write,
)
from swell.sim.trial import replay, try_faults, try_seed
from swell.sim.workers import search_in_parallel
from tests.sim.campaign import ENTRIES
from tests.sim.toy.flaws import PLANTED, PLANTED_IN_PAIR
from tests.sim.toy.scenarios import SCENARIOS, toy_pair, toy_subject

PLANS = Path(__file__).parents[1] / "data" / "fault_plans"
ALL_PLANTED = {**PLANTED, **PLANTED_IN_PAIR}


@pytest.fixture(scope="module")
def figures() -> Figures:
    """Most of the seeds run here; the pair of replicas has a tenth."""
    figures = Figures()
    for result in search_at_random(toy_subject(), range(310)):
        figures.add(result)
    for result in search_at_random(toy_pair(), range(34)):
        figures.add(result)
    return figures


def test_seeds_break_no_rule(figures: Figures) -> None:
    """Whatever faults are drawn, nothing is violated and everything ends well."""
    told = [
        (r.subject, r.scenario, r.seed, [str(v) for v in r.violations]) for r in figures.failures
    ]

    assert told == []
    assert sum(figures.seeds.values()) == 344


def test_seeds_hit_every_kind_of_fault(figures: Figures) -> None:
    """A fault that is never hit proves nothing."""
    missed = [kind for kind in FaultKind if not figures.hit[kind]]

    assert missed == []
    assert figures.crashes > 250


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_write_may_be_the_last(scenario: Scenario) -> None:
    """A crash before or after any write, or a lost answer to it, changes nothing in the end."""
    results = list(search_every_write(toy_subject(), scenario, seed=0))
    told = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]

    assert told == []
    assert len(results) == 1 + 3 * len(results[0].write_sites)
    assert len(results[0].write_sites) > 10
    assert sum(r.crashes for r in results) == 2 * len(results[0].write_sites)


@pytest.mark.parametrize("name", ALL_PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    """The stored plan shows the bug it was made for, and the correct controller survives it."""
    plan = read_plan(PLANS / f"{name.replace(' ', '-')}.json")
    mutant = subject_of(ENTRIES, plan)
    correct = next(e.subject for e in ENTRIES if e.subject.name == plan.subject)

    assert plan.mutant == name
    assert replay(mutant, plan).breaks(plan.violates)
    assert replay(correct, plan).violations == ()


def test_faults_do_not_change_what_comes_out() -> None:
    """Where the end depends on no timing, it is the same as without faults."""
    results = list(search_differences(toy_subject(), range(1000, 1040)))

    assert [(r.seed, [str(v) for v in r.violations]) for r in results if r.violations] == []
    assert len(results) == 16


def test_recorded_faults_replay_the_run() -> None:
    """What was drawn in a run is all it takes to have the same run again."""
    subject = toy_subject()
    for seed in range(10):
        scenario = scenario_of(subject, seed)
        drawn = try_seed(subject, scenario, seed)
        again = try_faults(subject, scenario, seed, drawn.faults)

        assert again.digest == drawn.digest
        assert again.faults == drawn.faults


def test_workers_give_the_same_results() -> None:
    """Seeds may be shared out among processes."""
    alone = [r.digest for r in search_at_random(toy_subject(), range(40))]

    assert [r.digest for r in search_in_parallel(toy_subject(), range(40), 2)] == alone


def test_runs_are_the_same_in_other_processes() -> None:
    """Neither addresses nor hash seeds nor anything else from outside reaches a run."""
    here = digest(ENTRIES, 30)

    assert digests_elsewhere("tests.sim.campaign", 30) == [here, here]
