"""Each node plays all behaviours once, many at a time; every test asks what became of its own."""

from __future__ import annotations

import pytest

from tests.contract.node.bench import BEHAVIOURS, Behaviour
from tests.contract.node.grounds import containers, play, processes

Told = dict[Behaviour, str]


@pytest.fixture(scope="session")
def told_by_processes(tmp_path_factory: pytest.TempPathFactory) -> Told:
    home = tmp_path_factory.mktemp("processes")
    return play(processes(home), BEHAVIOURS, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def told_by_containers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Told:
    real = request.getfixturevalue("real_cluster")
    return play(containers(real), BEHAVIOURS, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session", params=["processes", "containers"])
def told(request: pytest.FixtureRequest) -> Told:
    """What each node had to tell in the end."""
    found: Told = request.getfixturevalue(f"told_by_{request.param}")
    return found
