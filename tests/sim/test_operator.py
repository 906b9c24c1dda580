"""The operator under simulated faults: what only it is tried for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swell.sim.campaign.search import kills_by_pauses
from swell.sim.campaign.trial import try_faults
from swell.sim.faults.plan import Fault, FaultKind
from tests.sim.operator.flaws import PLANTED
from tests.sim.operator.hostile import try_hostile
from tests.sim.operator.scenarios import SCENARIOS
from tests.sim.operator.subject import operator_subject


def test_there_are_enough_scenarios_and_planted_bugs() -> None:
    """At least eight areas of behaviour, and ten ways to get them wrong."""
    assert len(SCENARIOS) >= 8
    assert len(PLANTED) >= 10


@pytest.mark.parametrize("seed", range(4))
def test_hostile_jobs_harm_nobody_else(seed: int) -> None:
    """One malformed or hostile job never stops others, and ends or says why it waits."""
    assert try_hostile(seed).violations == ()


@pytest.mark.long
def test_bug_that_takes_one_pause_is_hunted_down() -> None:
    """A plan that is finished late does harm only after a pause at one of its records."""
    name = "operator finishes old plans"
    whole = operator_subject(PLANTED[name])
    mutant = replace(whole, scenarios=(whole.scenario("nodes"),))
    kill = next(kills_by_pauses(mutant, name, range(3, 4)))

    assert kill.invariant == "O1 forced only when fenced"
    assert [one.kind for one in kill.result.faults] == [FaultKind.PAUSED]


@pytest.mark.parametrize(("seed", "job", "nth", "amount"), [(0, "bee", 3, 0.9), (1, "cat", 4, 0.2)])
def test_hold_begins_when_the_operator_sees_the_silence(
    seed: int, job: str, nth: int, amount: float
) -> None:
    """A pause in which nothing is written does not lengthen the time that restarts are held."""
    subject = operator_subject()
    site = f"operator-0 patch aitrainingjobs.elasticdeeplearning.ai/status default/{job}"
    pause = Fault(site, nth, FaultKind.PAUSED, amount)
    result = try_faults(subject, subject.scenario("outage"), seed, [pause])

    assert result.hits[FaultKind.PAUSED] == 1
    assert [str(one) for one in result.violations] == []
