"""The operator under simulated faults: what only it is tried for."""

from __future__ import annotations

import pytest

from tests.sim.operator.flaws import PLANTED
from tests.sim.operator.hostile import try_hostile
from tests.sim.operator.scenarios import SCENARIOS


def test_there_are_enough_scenarios_and_planted_bugs() -> None:
    """At least eight areas of behaviour, and ten ways to get them wrong."""
    assert len(SCENARIOS) >= 8
    assert len(PLANTED) >= 10


@pytest.mark.parametrize("seed", range(4))
def test_hostile_jobs_harm_nobody_else(seed: int) -> None:
    """One malformed or hostile job never stops others, and ends or says why it waits."""
    assert try_hostile(seed).violations == ()
