"""The clusters of the end-to-end scenarios. Each is set up once, for the chosen scenarios."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.operator.scenario import Scenario
from tests.e2e.operator.scenarios import SCENARIOS
from tests.e2e.operator.stage import Outcomes, run_embedded, run_real
from tests.testbed.control_plane import ControlPlane


@pytest.fixture(scope="session")
def outcomes_embedded(request: pytest.FixtureRequest) -> Outcomes:
    return run_embedded(_chosen(request, "embedded"))


@pytest.fixture(scope="session")
def outcomes_real(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Outcomes:
    return run_real(control_plane.kubeconfig, _chosen(request, "kubernetes"))


def _chosen(request: pytest.FixtureRequest, environment: str) -> Sequence[Scenario]:
    """The scenarios this run of pytest asks for: a single one takes only its own time."""
    wanted = {
        item.callspec.params.get("scenario")  # other tests have environments, too
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and item.callspec.params.get("environment") == environment
    }
    chosen = [scenario for scenario in SCENARIOS if scenario.name in wanted]
    # Whoever asks for outcomes runs a scenario: with none, every test of one would pass.
    assert chosen, f"no scenario is chosen for {environment}"
    return chosen
