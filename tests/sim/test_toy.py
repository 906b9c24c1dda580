"""The simulator itself, on the toy controller: runs compare, replay, and can be shared out."""

from __future__ import annotations

from swell.sim.campaign.search import (
    scenario_of,
    search_at_random,
    search_differences,
    search_every_write,
    search_in_parallel,
    search_writes_in_parallel,
)
from swell.sim.campaign.trial import try_faults, try_seed
from tests.sim.toy.scenarios import toy_subject


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


def test_workers_give_the_same_results_at_every_write() -> None:
    """What goes wrong at writes may be shared out, too."""
    subject = toy_subject()
    scenario = subject.scenario("finish")
    alone = [r.digest for r in search_every_write(subject, scenario, 0)]
    shared = search_writes_in_parallel(subject, scenario, 0, "", 2)

    assert [r.digest for r in shared] == alone
