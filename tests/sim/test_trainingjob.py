"""TrainingJobs under faults: nothing is violated, and every planted bug is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.sim.campaign import digest, subject_of
from swell.sim.figures import Figures
from swell.sim.plan import FaultKind, read_plan
from swell.sim.scenario import Scenario, Subject
from swell.sim.search import search_at_random, search_differences, search_every_write
from swell.sim.trial import replay
from tests.sim.trainingjob.entries import ENTRIES
from tests.sim.trainingjob.nodes import EVICTED
from tests.sim.trainingjob.scenarios import (
    KEPT_SCENARIOS,
    SCENARIOS,
    kept_subject,
    trainingjob_subject,
)
from tests.sim.trainingjob.subject import PLANTED

PLANS = Path(__file__).parents[1] / "data" / "fault_plans"
N_SEEDS = 70
# A crash at every write of these: together they are in every phase and at every kind of write.
# A campaign does so to all scenarios.
EVERY_WRITE = ("scale", "delete")
CALLS_PER_JOB_MAX = 150


@pytest.fixture(scope="module")
def figures() -> Figures:
    figures = Figures()
    for result in search_at_random(trainingjob_subject(), range(N_SEEDS)):
        figures.add(result)
    return figures


def test_seeds_break_no_rule(figures: Figures) -> None:
    """Whatever faults are drawn, nothing is violated and everything ends well."""
    told = [(r.scenario, r.seed, [str(v) for v in r.violations]) for r in figures.failures]

    assert told == []
    assert sum(figures.seeds.values()) == N_SEEDS


def test_seeds_hit_every_kind_of_fault(figures: Figures) -> None:
    """A fault that is never hit proves nothing."""
    missed = [kind for kind in (*FaultKind, EVICTED) if not figures.hit[kind]]

    assert missed == []
    assert figures.crashes > N_SEEDS


@pytest.mark.parametrize(
    ("subject", "scenario"),
    [
        *(
            pytest.param(trainingjob_subject(), s, marks=pytest.mark.long)
            for s in SCENARIOS
            if s.name in EVERY_WRITE
        ),
        (kept_subject(), KEPT_SCENARIOS[0]),
    ],
    ids=lambda one: one.name,
)
def test_every_write_may_be_the_last(subject: Subject, scenario: Scenario) -> None:
    """A crash before or after any write, or a lost answer to it, changes nothing in the end."""
    results = list(search_every_write(subject, scenario, seed=0))
    told = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]

    assert told == []
    assert len(results) == 1 + 3 * len(results[0].write_sites)
    assert len(results[0].write_sites) > 10


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_calls_are_bounded(scenario: Scenario) -> None:
    """Without faults a job costs so many calls from its beginning to its end, and no more."""
    reference = next(search_every_write(trainingjob_subject(), scenario, seed=1))

    assert reference.violations == ()
    assert reference.calls <= CALLS_PER_JOB_MAX * reference.n_submitted


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    """The stored plan shows the bug it was made for, and the correct operator survives it."""
    plan = read_plan(PLANS / f"{name.replace(' ', '-')}.json")

    assert plan.mutant == name
    assert replay(subject_of(ENTRIES, plan), plan).breaks(plan.violates)
    assert replay(trainingjob_subject(), plan).violations == ()


def test_faults_do_not_change_what_comes_out() -> None:
    """Where the end depends on no timing, it is the same as without faults."""
    results = list(search_differences(kept_subject(), range(1000, 1020)))

    assert [(r.seed, [str(v) for v in r.violations]) for r in results if r.violations] == []
    assert len(results) == 20


def test_runs_are_the_same_again() -> None:
    """The same seeds give the same runs."""
    assert digest(ENTRIES, 40) == digest(ENTRIES, 40)
