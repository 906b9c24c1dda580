"""Every behaviour of AITrainingJobs, on the embedded cluster and on a real control plane.

All stories of a ground are played at the same time; a test tells how one of them went.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.operator.stage import Outcomes
from tests.e2e.operator.stories import STORIES

GROUNDS = ("embedded", "kubernetes")
ROWS = [
    pytest.param(ground, story.name, id=f"{ground}-{story.name}")
    for ground in GROUNDS
    for story in STORIES
    if ground == "embedded" or not story.takes_long
]


@pytest.mark.parametrize(("ground", "story"), ROWS)
def test_story(ground: str, story: str, request: pytest.FixtureRequest) -> None:
    """What happens to the job has the consequences that the story tells."""
    fixture = "played_embedded" if ground == "embedded" else "played_real"
    outcomes: Outcomes = request.getfixturevalue(fixture)
    failure = outcomes.get(story)
    if failure is not None:
        raise failure


def test_names_are_distinct() -> None:
    """A story's name is its job's, so no two may be the same."""
    twice = [name for name, n in Counter(story.name for story in STORIES).items() if n > 1]

    assert not twice
