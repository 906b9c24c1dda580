"""The stages of the end-to-end stories. Each is set up once, for the stories that were chosen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.operator.stage import Outcomes, play_embedded, play_real
from tests.e2e.operator.stories import STORIES
from tests.e2e.operator.story import Story
from tests.testbed.control_plane import ControlPlane


@pytest.fixture(scope="session")
def played_embedded(request: pytest.FixtureRequest) -> Outcomes:
    return play_embedded(_chosen(request, "embedded"))


@pytest.fixture(scope="session")
def played_real(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Outcomes:
    return play_real(control_plane.kubeconfig, _chosen(request, "kubernetes"))


def _chosen(request: pytest.FixtureRequest, ground: str) -> Sequence[Story]:
    """What this run of pytest asks for, so that a single story takes a single story's time."""
    wanted = {
        item.callspec.params.get("story")  # other tests have grounds, too
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and item.callspec.params.get("ground") == ground
    }
    return [story for story in STORIES if story.name in wanted]
