"""`swell top`: what its tables say."""

from __future__ import annotations

from swell.cli.top import load_rows, size_rows, trainer_rows
from tests.autoscaler_cases import a_job, a_node, a_pod, a_role, a_trainer, a_training_job

JOB = a_job("a", targets={"t": 3}, t=a_role(1, 5, cpu="1"))
PODS = (a_pod("a", "t", 0, "n", cpu="1"), a_pod("a", "t", 1, "n", cpu="500m"))


def test_roles_are_shown_with_their_sizes() -> None:
    """What a role may have, has, and is to have."""
    assert size_rows([JOB], PODS)[1:] == [
        ["a", "t", JOB.status.phase.value, "1", "2", "3", "5"],
    ]


def test_load_is_what_pods_on_nodes_ask_for() -> None:
    """Requests of live pods over what nodes have to give; pods elsewhere do not count."""
    elsewhere = a_pod("a", "t", 2, "gone", cpu="1")
    rows = {row[0]: row[1:] for row in load_rows([a_node("n", cpu=4)], [*PODS, elsewhere])}

    assert rows["cpu"] == ["1.5", "4", "38%"]


def test_empty_cluster_has_headings_only() -> None:
    """No jobs and no nodes are no error."""
    assert len(size_rows([], [])) == len(load_rows([], [])) == 1


def test_trainers_of_the_older_kind_are_shown() -> None:
    """With their bounds, how many of them run, and how many there are to be."""
    job = a_training_job("old", 1, 5, target=3)
    fresh = a_training_job("new", 2, 2, phase="")
    pods = [a_trainer("old", 0, "n"), a_trainer("old", 1), a_trainer("another", 0, "n")]

    assert trainer_rows([job, fresh], pods) == [
        ["TrainingJob/new", "trainer", "", "2", "0", "2", "2"],
        ["TrainingJob/old", "trainer", "Running", "1", "1", "3", "5"],
    ]
