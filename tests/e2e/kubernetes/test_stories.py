"""Jobs in real containers. All stories are played at the same time; a test tells of one."""

from __future__ import annotations

import pytest

from tests.e2e.kubernetes.stories import STORIES
from tests.e2e.operator.stage import Outcomes


@pytest.mark.parametrize("name", [story.name for story in STORIES])
def test_story(name: str, played: Outcomes) -> None:
    """What happens to the job has the consequences that the story tells."""
    failure = played.get(name)
    if failure is not None:
        raise failure
