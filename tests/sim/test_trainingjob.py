"""TrainingJobs under simulated faults: what only they are tried for."""

from __future__ import annotations

import pytest

from swell.sim.campaign.search import search_differences
from swell.sim.campaign.trial import try_faults
from swell.sim.scenario import Scenario
from tests.sim.trainingjob.scenarios import SCENARIOS, kept_subject, trainingjob_subject

CALLS_PER_JOB_MAX = 150


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_calls_are_bounded(scenario: Scenario) -> None:
    """Without faults a job costs so many calls from its beginning to its end, and no more."""
    reference = try_faults(trainingjob_subject(), scenario, seed=1)

    assert reference.violations == ()
    assert reference.calls <= CALLS_PER_JOB_MAX * reference.n_submitted


def test_faults_do_not_change_what_comes_out() -> None:
    """Where the end depends on no timing, it is the same as without faults."""
    results = list(search_differences(kept_subject(), range(1000, 1020)))

    assert [(r.seed, [str(v) for v in r.violations]) for r in results if r.violations] == []
    assert len(results) == 20
