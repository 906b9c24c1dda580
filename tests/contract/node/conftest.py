"""Each node plays all behaviours once, many at a time; every test asks what became of its own."""

from __future__ import annotations

import pytest

from tests.contract.node.bench import BEHAVIOURS, Behaviour
from tests.contract.node.grounds import containers, play, processes

Reported = dict[Behaviour, str]


@pytest.fixture(scope="session")
def reported_by_processes(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    home = tmp_path_factory.mktemp("processes")
    return play(processes(home), BEHAVIOURS, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def reported_by_containers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Reported:
    real = request.getfixturevalue("real_cluster")
    return play(containers(real), BEHAVIOURS, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session", params=["processes", "containers"])
def reported(request: pytest.FixtureRequest) -> Reported:
    """What each node had to tell in the end."""
    found: Reported = request.getfixturevalue(f"reported_by_{request.param}")
    return found
