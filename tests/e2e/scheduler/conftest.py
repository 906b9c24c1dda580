"""The stages of the scheduler's stories. Each is set up once, for the stories that were chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.e2e.scheduler.plays import EVERY
from tests.e2e.scheduler.stage import Outcome, play_embedded, play_real
from tests.e2e.scheduler.story import Story
from tests.testbed.control_plane import ControlPlane, running_control_plane


@pytest.fixture(scope="session")
def own_control_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """One of our own: a thousand nodes would be in the way of everybody else."""
    with running_control_plane() as plane:
        yield plane


@pytest.fixture(scope="session")
def scheduled_embedded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    folder = tmp_path_factory.mktemp("scheduler")
    return play_embedded(folder, _chosen(request, "embedded"))


@pytest.fixture(scope="session")
def scheduled_real(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    own_control_plane: ControlPlane,
) -> Outcome:
    folder = tmp_path_factory.mktemp("scheduler")
    return play_real(own_control_plane, folder, _chosen(request, "kubernetes"))


def _chosen(request: pytest.FixtureRequest, environment: str) -> Sequence[Story]:
    """What this run of pytest asks for, so that a single story takes a single story's time."""
    wanted = {
        item.callspec.params.get("story")
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and item.callspec.params.get("environment") == environment
    }
    chosen = [story for story in EVERY if story.name in wanted]
    # Without a story every test would pass.
    assert chosen, f"no story is chosen for {environment}"
    return chosen
