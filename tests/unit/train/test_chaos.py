"""Training survives kills, growth and shrinking, and ends as if nothing had happened.

Real processes, the real bus, and the backend that needs no framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.train.array_program import N_BATCH, N_SAMPLES
from tests.unit.train.chaos import PROGRAM, Chaos, check_ending, undisturbed_weights
from tests.unit.train.cluster import TrainingCluster

EPOCHS = 8


@pytest.fixture(scope="module")
def undisturbed() -> np.ndarray:
    return undisturbed_weights(EPOCHS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TrainingCluster]:
    made = TrainingCluster(tmp_path / "job", PROGRAM, EPOCHS=str(EPOCHS), STEP_S="0.02")
    yield made
    made.close()


def test_a_kill_a_leaders_kill_a_shrink_and_growth(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """Survivors go on within the process they are in; newcomers get the state from them."""
    cluster.begin(3)
    cluster.wait_for_size(3)
    killed = cluster.replace(2)
    cluster.wait_for_size(2, killed)
    cluster.wait_for_size(3, killed)
    lost = cluster.replace(cluster.leader())
    cluster.wait_for_size(2, lost)
    cluster.wait_for_size(3, lost)
    shrunk = cluster.resize(2)
    cluster.wait_for_size(2, shrunk)
    cluster.resize(3)

    ended = cluster.wait_for_end()

    assert ended[:2] == [0, 0]
    check_ending(cluster, undisturbed, EPOCHS)


def test_who_missed_the_last_step_ends_with_the_others(tmp_path: Path) -> None:
    """The others hand it the last state, and all run what follows the loop, with equal weights."""
    cluster = TrainingCluster(
        tmp_path / "job", PROGRAM, EPOCHS="1", STEP_S="0.02", BREAKS_AT=f"1 {N_SAMPLES // N_BATCH}"
    )
    try:
        cluster.begin(3)

        assert cluster.wait_for_end() == [0, 0, 0]
        assert sum("final" in fact for fact in cluster.facts()) == 3
        check_ending(cluster, undisturbed_weights(1), 1)
    finally:
        cluster.close()


def test_who_catches_an_error_of_its_own_is_no_step_behind(
    tmp_path: Path, undisturbed: np.ndarray
) -> None:
    """The others have done the step that it has not: it goes on with their state, as a newcomer."""
    cluster = TrainingCluster(
        tmp_path / "job", PROGRAM, EPOCHS=str(EPOCHS), STEP_S="0.01", ERRS_AT="1 10"
    )
    try:
        cluster.begin(3)

        assert cluster.wait_for_end() == [0, 0, 0]
        assert "a step broke off by an error of the program (KeyError)" in cluster.errors()
        check_ending(cluster, undisturbed, EPOCHS)
    finally:
        cluster.close()


def test_random_changes(tmp_path: Path, undisturbed: np.ndarray) -> None:
    """Kills of some or all, kills during a change, quick resizes: the result is the same.

    Where nobody is left who holds the state, they begin anew. Many runs, with frozen processes and
    lines that are cut in one direction, are part of `make sim`.
    """
    kinds = ("kill", "kill two", "kill all", "kill in a change", "two resizes")
    chaos = Chaos(tmp_path / "job", seed=1, kinds=kinds, n_disturbances=2, epochs=EPOCHS)
    try:
        chaos.run(hang_s=120.0)
        chaos.check(undisturbed)
    finally:
        chaos.close()


def test_new_processes_begin_anew_when_nobody_holds_the_state(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """The only one that trained is killed while the others still load."""
    cluster.begin(1)
    cluster.wait_for_size(1)
    cluster.resize(2)
    lost = cluster.replace(0)
    cluster.wait_for_size(2, lost)

    assert cluster.wait_for_end() == [0, 0]

    assert min(f["step"] for f in cluster.facts(lost) if f.get("size") == 2) == 1
    check_ending(cluster, undisturbed, EPOCHS)


def test_all_killed_at_once_go_on_from_the_checkpoint(
    tmp_path: Path, cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """Nobody holds the state any more, but it was saved some steps before."""
    cluster.set_variable("CHECKPOINT", str(tmp_path / "checkpoint"))
    cluster.set_variable("SAVE_EVERY", "0.3")
    cluster.begin(2)
    cluster.wait(lambda: any(fact.get("step", 0) > 100 for fact in cluster.facts()))
    lost = cluster.replace(0, 1)

    assert cluster.wait_for_end() == [0, 0]

    assert min(fact["step"] for fact in cluster.facts(lost) if "samples" in fact) > 1
    check_ending(cluster, undisturbed, EPOCHS)


def test_preempted_whole_and_resumed(
    tmp_path: Path, undisturbed: np.ndarray, cluster: TrainingCluster
) -> None:
    """When all are told to go, the state is saved; the next processes lose no step."""
    cluster.set_variable("CHECKPOINT", str(tmp_path / "checkpoint"))
    cluster.begin(2)
    cluster.wait(lambda: any(fact.get("step", 0) > 20 for fact in cluster.facts()))
    for process in cluster.processes.values():
        process.terminate()
    assert cluster.wait_for_end() == [143, 143]
    reached = max(fact.get("step", 0) for fact in cluster.facts())
    cluster.begin(2)

    assert cluster.wait_for_end()[:2] == [0, 0]

    resumed = [f for f in cluster.facts() if f["process"] in {"0-2", "1-2"} and "samples" in f]
    assert min(fact["step"] for fact in resumed) == reached + 1
    check_ending(cluster, undisturbed, EPOCHS)


def test_members_that_left_and_are_listed_again_have_one_successor_each(tmp_path: Path) -> None:
    """The tests' cluster does as the operator does, whichever of them have ended already."""
    cluster = TrainingCluster(tmp_path / "job", ["sleep", "1000"])
    try:
        cluster.begin(4)
        left = [cluster.processes[index] for index in (1, 2, 3)]
        cluster.resize(1)
        for process in left:
            process.wait()
        cluster.resize(4)
        cluster.replace(2, 3)

        started = (tmp_path / "job").rglob("*-*.err")
        assert sorted(path.stem for path in started) == [
            *("0-1", "1-1", "1-2", "2-1", "2-2", "2-3", "3-1", "3-2", "3-3")
        ]
    finally:
        cluster.close()
