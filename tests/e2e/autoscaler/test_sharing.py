"""Elastic jobs of both kinds share a cluster, give room to others and take it back.

The story is played with each kind, on the embedded cluster in virtual time and on a real control
plane; a test tells whether one thing in it was as it should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.autoscaler.kinds import NEW, OLD
from tests.e2e.autoscaler.sharing import FAIR, GANG_SIZE, JOBS, LEAST, Facts, live
from tests.e2e.autoscaler.stage import N_TRAINERS_MAX, play_embedded, play_real
from tests.testbed.control_plane import running_control_plane

EMBEDDED, REAL = "embedded", "kubernetes"


@pytest.fixture(scope="module")
def kubeconfig(testbed_binaries: None) -> Iterator[Path]:
    """A control plane of its own: whatever else is on a cluster would count."""
    with running_control_plane() as plane:
        yield plane.kubeconfig


@pytest.fixture(scope="module", params=[NEW, OLD])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[EMBEDDED, REAL])
def facts(request: pytest.FixtureRequest, kind: str) -> Facts:
    """The whole story, once for each kind and ground."""
    story = partial(live, kind=kind)
    if request.param == EMBEDDED:
        return play_embedded(story)
    return play_real(request.getfixturevalue("kubeconfig"), story)


def test_three_jobs_share_fairly(facts: Facts) -> None:
    """Jobs that could all use more than there is get the same."""
    assert facts.shared == dict.fromkeys(JOBS, FAIR)


def test_others_shrink_for_a_gang_and_grow_back(facts: Facts) -> None:
    """A rigid gang starts whole as soon as the others have made room; then they take it back."""
    grown = [facts.regrown[name] > facts.squeezed[name] for name in JOBS]

    assert facts.n_gang == GANG_SIZE
    assert sum(facts.squeezed.values()) == N_TRAINERS_MAX - GANG_SIZE
    assert sum(facts.regrown.values()) == N_TRAINERS_MAX
    assert all(grown)


def test_nobody_falls_below_its_minimum(facts: Facts) -> None:
    """From its start on every job has at least as many trainers as it must have."""
    assert min(facts.fewest.values()) >= LEAST


def test_hopeless_job_squeezes_nobody(facts: Facts) -> None:
    """For a job that the cluster could not hold empty, no room is made."""
    assert facts.beside_hopeless == facts.regrown


def test_sizes_stay_while_the_jobs_are_the_same(facts: Facts) -> None:
    """No role changes direction more than once, and on the embedded cluster half an hour is long
    enough to tell."""
    assert max(facts.turns.values()) <= 1


def test_finishing_job_gets_no_new_pods(facts: Facts) -> None:
    """The first trainer to be done freezes the job's size, however much room there is."""
    assert facts.finishing == [facts.last_target]
    assert facts.newcomers == []
