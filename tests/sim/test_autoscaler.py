"""The autoscaler under simulated faults, with the operator; and what it is good for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swell.sim.figures import Figures
from swell.sim.plan import read_plan
from swell.sim.scenario import Scenario
from swell.sim.search import search_at_random, search_every_write
from swell.sim.trial import replay, try_faults
from tests.sim.autoscaler.classic import compare, turns_in_a_crowd
from tests.sim.autoscaler.flaws import PLANTED
from tests.sim.autoscaler.rules import AUTOSCALER
from tests.sim.autoscaler.subject import SCENARIOS, autoscaler_subject, faultless

PLANS = Path(__file__).parents[1] / "data" / "fault_plans"
# All of them with AUTOSCALER_SEEDS=500; a sample in every run of the tests.
N_SEEDS = int(os.environ.get("AUTOSCALER_SEEDS", "60"))
N_CLASSIC = int(os.environ.get("AUTOSCALER_CLASSIC", "5"))
HALF_AN_HOUR_S = 1800.0


def test_seeds_break_no_rule() -> None:
    """Whatever faults are drawn, targets stay within their rules and all work gets done."""
    figures = Figures()
    for result in search_at_random(autoscaler_subject(), range(N_SEEDS)):
        figures.add(result)
    told = [(r.scenario, r.seed, [str(v) for v in r.violations]) for r in figures.failures]

    assert told == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_without_faults_every_raise_finds_room(scenario: Scenario) -> None:
    """Where the autoscaler sees what there is, every rule holds from the first moment."""
    result = try_faults(autoscaler_subject(), faultless(scenario), seed=1)

    assert [str(v) for v in result.violations] == []


def test_every_write_may_be_the_last() -> None:
    """A crash before or after any write of the autoscaler, or a lost answer, changes no end."""
    subject = autoscaler_subject()
    scenario = subject.scenario("finish")
    results = list(search_every_write(subject, scenario, seed=0, whose=AUTOSCALER))
    told = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]

    assert told == []
    assert len(results) > 15


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    """The stored plan shows the bug it was made for, and the correct autoscaler survives it."""
    plan = read_plan(PLANS / f"{name.replace(' ', '-')}.json")

    assert plan.mutant == name
    assert replay(autoscaler_subject(PLANTED[name]), plan).breaks(plan.violates)
    assert replay(autoscaler_subject(), plan).violations == ()


@pytest.mark.parametrize("seed", range(3))
def test_role_turns_at_most_once_while_the_jobs_are_the_same(seed: int) -> None:
    """In half an hour with an unchanged set of jobs no role changes direction more than once."""
    turns = turns_in_a_crowd(seed, HALF_AN_HOUR_S)

    assert turns.n_resizes > 5
    assert max((len(times) for times in turns.turned_at.values()), default=0) <= 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(N_CLASSIC))
def test_classic_scenario_waits_less_and_uses_more(seed: int) -> None:
    """Twenty jobs of up to ten trainers, 90 s apart: shorter waits, a fuller cluster."""
    without, with_ = compare(seed)
    print(f"seed {seed}: without {without}, with {with_}")  # noqa: T201

    assert with_.mean_pending_s < without.mean_pending_s
    assert with_.utilisation > without.utilisation
