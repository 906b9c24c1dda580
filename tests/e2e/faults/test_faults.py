"""Jobs on a real kube-apiserver whose answers go wrong: they end as they do without faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.plans import NO_FAULTS, PLANS, Plan
from tests.e2e.faults.stage import Result, play_pause, play_plans
from tests.testbed.control_plane import ControlPlane, running_control_plane


@pytest.fixture(scope="module")
def plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    with running_control_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def played(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    return play_plans(plane, tmp_path_factory.mktemp("faults"), (NO_FAULTS, *PLANS))


@pytest.mark.parametrize("plan", [NO_FAULTS, *PLANS], ids=lambda plan: plan.name)
def test_faults_change_nothing_that_counts(plan: Plan, played: dict[str, Result]) -> None:
    """Every fault strikes, no invariant breaks, and all ends as without faults."""
    result = played[plan.name]

    for failure in result.failures.values():
        raise failure
    assert len(result.struck) >= plan.n_certain
    assert result.violations == []
    assert result.end_state == played[NO_FAULTS.name].end_state


def test_paused_leader_does_no_harm(
    plane: ControlPlane, played: dict[str, Result], tmp_path: Path
) -> None:
    """A leader stopped in the middle of a write for longer than its lease writes no more."""
    result, late = play_pause(plane, tmp_path)

    for failure in result.failures.values():
        raise failure
    assert len(result.struck) == 1
    assert late == []
    assert result.violations == []
    assert result.end_state == played[NO_FAULTS.name].end_state
