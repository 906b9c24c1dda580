"""The stage for stories in real containers: one cluster, with Swell installed, for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.kubernetes.installed import install
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.kubernetes.stage import play
from tests.e2e.kubernetes.stories import STORIES
from tests.e2e.operator.scenario import Scenario
from tests.e2e.operator.stage import Outcomes
from tests.testbed.cluster import RealCluster
from tests.testbed.kubectl import Kubectl

HERE, LAST = Path(__file__).parent, "test_rights.py"


@pytest.fixture(scope="session")
def machine(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> RealMachine:
    """The cluster, with Swell inside."""
    kubectl = Kubectl(real_cluster.kubeconfig, tmp_path_factory.mktemp("kubectl"))
    made = RealMachine(real_cluster, kubectl)
    install(made)
    return made


@pytest.fixture(scope="session")
def played(request: pytest.FixtureRequest, machine: RealMachine) -> Outcomes:
    """Every story that was asked for, played at once."""
    return play(machine, _chosen(request))


def _chosen(request: pytest.FixtureRequest) -> Sequence[Scenario]:
    """What this run of pytest asks for, so that a single story takes a single story's time."""
    wanted = {
        item.callspec.params.get("name")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    return [story for story in STORIES if story.name in wanted]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What was done with rights is looked at when all is done."""
    items.sort(key=lambda item: item.path.name == LAST and item.path.parent == HERE)
