"""The scheduler's behaviour, on the embedded cluster and on a real control plane.

The stories of a ground are played together; a test tells how one of them went.
"""

from __future__ import annotations

import pytest

from tests.e2e.scheduler.plays import EVERY
from tests.e2e.scheduler.stage import Outcome

ENVIRONMENTS = ("embedded", "kubernetes")


@pytest.fixture
def outcome(environment: str, request: pytest.FixtureRequest) -> Outcome:
    fixture = "scheduled_embedded" if environment == "embedded" else "scheduled_real"
    played: Outcome = request.getfixturevalue(fixture)
    return played


@pytest.mark.parametrize("story", [story.name for story in EVERY])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_story(environment: str, story: str, outcome: Outcome) -> None:
    """What users ask for comes, as the story tells."""
    failure = outcome.failed.get(story)
    if failure is not None:
        raise failure


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_gangs_are_never_bound_twice_or_by_halves(environment: str, outcome: Outcome) -> None:
    """Whatever happened, watchers saw whole gangs, each pod in one place, and no full node."""
    assert not outcome.faults
    assert outcome.n_binds or not outcome.failed
