"""Every planted bug is found by its stored plan; and plans mean the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.sim.campaign.command import digest, digests_elsewhere
from swell.sim.campaign.trial import replay
from swell.sim.faults.plan import read_plan
from tests.sim.campaign import ENTRIES

# Runs of each subject; a campaign compares 50.
N_COMPARED = 1
PLANS = Path(__file__).parents[1] / "data" / "fault_plans"


@pytest.mark.parametrize("name", [name for entry in ENTRIES for name in entry.mutants])
def test_planted_bug_is_found(name: str) -> None:
    """The stored plan shows the bug it was made for, and the correct subject survives it."""
    entry = next(entry for entry in ENTRIES if name in entry.mutants)
    plan = read_plan(PLANS / f"{name.replace(' ', '-')}.json")

    assert (plan.subject, plan.mutant) == (entry.subject.name, name)
    assert replay(entry.mutants[name], plan).breaks(plan.violates)
    assert replay(entry.subject, plan).violations == ()


def test_runs_are_the_same_in_other_processes() -> None:
    """Neither addresses nor hash seeds nor anything else from outside reaches a run."""
    here = digest(ENTRIES, N_COMPARED)

    assert digests_elsewhere("tests.sim.campaign", N_COMPARED) == [here, here]
