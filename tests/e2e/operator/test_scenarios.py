"""Every behaviour of AITrainingJobs, on the embedded cluster and on a real control plane.

All scenarios of a cluster run at the same time; a test reports how one of them went.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.operator.scenarios import SCENARIOS
from tests.e2e.operator.stage import Outcomes

ENVIRONMENTS = ("embedded", "kubernetes")
ROWS = [
    pytest.param(environment, scenario.name, id=f"{environment}-{scenario.name}")
    for environment in ENVIRONMENTS
    for scenario in SCENARIOS
    if environment == "embedded" or not scenario.takes_long
]


@pytest.mark.parametrize(("environment", "scenario"), ROWS)
def test_scenario(environment: str, scenario: str, request: pytest.FixtureRequest) -> None:
    """What happens to the job has the consequences that the scenario states."""
    fixture = "outcomes_embedded" if environment == "embedded" else "outcomes_real"
    outcomes: Outcomes = request.getfixturevalue(fixture)
    failure = outcomes.get(scenario)
    if failure is not None:
        raise failure


def test_names_are_distinct() -> None:
    """A scenario's name is its job's, so no two may be the same."""
    twice = [name for name, n in Counter(scenario.name for scenario in SCENARIOS).items() if n > 1]

    assert not twice
