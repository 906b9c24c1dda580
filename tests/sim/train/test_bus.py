"""The bus under faults: no rule is broken, every kind of fault occurs, planted bugs are found."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from tests.sim.train.campaign import STORIES, digest, try_seed
from tests.sim.train.flaws import PLANTED, run_mutant
from tests.sim.train.story import ActionKind, read_story
from tests.sim.train.world import RunResult

# In every run of the tests; as many as one likes by the variable, or with `make sim`.
N_SEEDS = int(os.environ.get("BUS_SEEDS", "200"))


@cache
def results() -> tuple[RunResult, ...]:
    return tuple(map(try_seed, range(N_SEEDS)))


def test_seeds_break_no_rule() -> None:
    """With any faults nothing is violated, and all train in the end."""
    broken = [(r.story.seed, str(b)) for r in results() for b in r.broken]

    assert broken == []


def test_seeds_hit_every_kind_of_fault() -> None:
    """A fault that never occurs proves nothing."""
    hits = sum((result.hits for result in results()), Counter[str]())

    assert [kind for kind in ActionKind if not hits[kind]] == []
    assert sum(result.n_steps for result in results()) > 100 * len(results())


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    """The stored story shows the bug it was made for, and the correct bus survives it."""
    story = read_story(STORIES / f"{name.replace(' ', '-')}.json")

    assert story.mutant == name
    assert run_mutant(name, story).breaks(story.violates)
    assert run_mutant("", story).broken == ()


def test_stories_are_of_planted_bugs_or_mended_ones() -> None:
    """No stored story is left over; those without a mutant showed a bug of the bus itself."""
    stories = [read_story(path) for path in sorted(STORIES.glob("*.json"))]

    assert {story.mutant for story in stories} - {""} == set(PLANTED)
    assert [
        story.seed for story in stories if not story.mutant and run_mutant("", story).broken
    ] == []


def test_runs_are_the_same_again() -> None:
    """Nothing from outside reaches a run."""
    assert digest(range(3)) == digest(range(3))
