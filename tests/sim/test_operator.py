"""The operator under simulated faults: it breaks no rule, and every planted bug is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.sim.campaign import subject_of
from swell.sim.figures import Figures
from swell.sim.plan import FaultKind, read_plan
from swell.sim.search import search_at_random, search_every_write
from swell.sim.trial import replay
from tests.sim.operator.disturbances import OperatorFault
from tests.sim.operator.entries import ENTRIES, UNGUARDED
from tests.sim.operator.flaws import PLANTED
from tests.sim.operator.hostile import try_hostile
from tests.sim.operator.scenarios import SCENARIOS
from tests.sim.operator.subject import operator_pair, operator_subject

PLANS = Path(__file__).parents[1] / "data" / "fault_plans"
CORE = ("creation",)  # the others are a campaign's


@pytest.fixture(scope="module")
def figures() -> Figures:
    figures = Figures()
    for result in search_at_random(operator_subject(), range(120)):
        figures.add(result)
    for result in search_at_random(operator_pair(), range(20)):
        figures.add(result)
    return figures


def test_seeds_break_no_rule(figures: Figures) -> None:
    """Whatever faults are drawn, nothing is violated and everything ends well."""
    told = [
        (r.subject, r.scenario, r.seed, [str(v) for v in r.violations]) for r in figures.failures
    ]

    assert told == []


def test_seeds_hit_every_kind_of_fault(figures: Figures) -> None:
    """A fault that is never hit proves nothing."""
    missed = [kind for kind in (*FaultKind, *OperatorFault) if not figures.hit[kind]]

    assert missed == []


def test_there_are_enough_scenarios_and_planted_bugs() -> None:
    """At least eight areas of behaviour, and ten ways to get them wrong."""
    assert len(SCENARIOS) >= 8
    assert len(PLANTED) >= 10


@pytest.mark.parametrize("name", CORE)
def test_every_write_may_be_the_last(name: str) -> None:
    """A crash before or after any write, or a lost answer to it, changes nothing in the end."""
    subject = operator_subject()
    results = list(search_every_write(subject, subject.scenario(name), seed=0))
    told = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]

    assert told == []
    assert len(results) == 1 + 3 * len(results[0].write_sites)


@pytest.mark.parametrize("name", [*PLANTED, UNGUARDED])
def test_planted_bug_is_found(name: str) -> None:
    """The stored plan shows the bug it was made for, and the correct operator survives it."""
    plan = read_plan(PLANS / f"{name.replace(' ', '-')}.json")
    correct = next(e.subject for e in ENTRIES if e.subject.name == plan.subject)

    assert plan.mutant == name
    assert replay(subject_of(ENTRIES, plan), plan).breaks(plan.violates)
    assert replay(correct, plan).violations == ()


@pytest.mark.parametrize("seed", range(4))
def test_hostile_jobs_harm_nobody_else(seed: int) -> None:
    """One malformed or hostile job never stops others, and ends or says why it waits."""
    assert try_hostile(seed).violations == ()
