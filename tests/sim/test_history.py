"""The history under faults: lives by the hundred, and a crash at every write of theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swell.history.ledger import ledger_of
from swell.history.life import JobLife
from swell.history.reading import ended_lives
from swell.sim.campaign.search import search_at_random, search_every_write
from swell.sim.scenario import SimulationSubject
from swell.sim.world import SimulatedWorld
from tests.sim.operator.history_rules import shards_in
from tests.sim.operator.subject import operator_history

N_LIVES = 200
SEEDS_MAX = 120


def _with_lives(subject: SimulationSubject, lives: list[JobLife]) -> SimulationSubject:
    """The subject, whose end state is what its history has."""

    def end_state(world: SimulatedWorld) -> object:
        lives.extend(ended_lives(shards_in(world)))
        return len(lives)

    return replace(subject, end_state=end_state)


@pytest.mark.long
def test_two_hundred_lives_with_faults_add_up() -> None:
    """Every second has one cause, and the sum is the wall time, whatever has befallen the job."""
    lives: list[JobLife] = []
    violations = []
    for result in search_at_random(_with_lives(operator_history(), lives), range(SEEDS_MAX)):
        violations += [(result.scenario, result.seed, str(v)) for v in result.violations]
        if len(lives) >= N_LIVES:
            break

    assert violations == []
    assert len(lives) >= N_LIVES
    for life in lives:
        ledger = ledger_of(life, 0.0)
        assert life.ended is not None
        assert abs(sum(ledger.seconds.values()) - (life.ended - life.created)) <= 1
        ends = [entry.end for entry in ledger.entries[:-1]]
        assert ends == [entry.start for entry in ledger.entries[1:]]


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["finish", "delete"])
def test_a_crash_at_any_write_of_the_history_loses_and_doubles_nothing(scenario: str) -> None:
    """Before the write, after it, and when its answer is lost."""
    subject = operator_history()
    results = list(
        search_every_write(
            subject, subject.scenario(scenario), seed=0, whose="operator-0 patch configmaps"
        )
    )
    failures = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]

    assert failures == []
    assert len(results) > 3
