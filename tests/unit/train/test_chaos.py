"""Training survives kills, growth and shrinking, and ends as if nothing had happened.

Real processes, the real bus, and the backend that needs no framework.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.train.array_program import N_BATCH, N_SAMPLES
from tests.unit.train.cluster import ROOT, TrainingCluster, python

PROGRAM = [python(), "-m", "tests.unit.train.array_program"]
EPOCHS = 16


@pytest.fixture(scope="module")
def undisturbed() -> np.ndarray:
    """The weights that one process reaches alone."""
    env = {**os.environ, "EPOCHS": str(EPOCHS)}
    output = subprocess.run(PROGRAM, cwd=ROOT, env=env, check=True, capture_output=True, timeout=60)
    return np.array(json.loads(output.stdout.splitlines()[-1])["final"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TrainingCluster]:
    made = TrainingCluster(tmp_path, PROGRAM, EPOCHS=str(EPOCHS), STEP_S="0.01")
    yield made
    made.close()


def check_ending(cluster: TrainingCluster, undisturbed: np.ndarray) -> None:
    """All that trained to the end have the undisturbed weights, and each sample was used once."""
    n_steps = EPOCHS * N_SAMPLES // N_BATCH
    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert finals, cluster.errors()
    for fact in finals:
        assert fact["steps"] == n_steps
        assert fact["n_updates"] == n_steps
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-9
    facts = [fact for fact in cluster.facts() if "samples" in fact]
    generations = [fact["generation"] for fact in facts]
    assert generations == sorted(generations)  # no two groups train at a time
    # The last time that a step was done, its parts were disjoint.
    last: dict[int, list[int]] = {}
    done: dict[int, int] = {}
    for fact in facts:
        if done.get(fact["step"]) != fact["generation"]:
            last[fact["step"]], done[fact["step"]] = [], fact["generation"]
        last[fact["step"]] += fact["samples"]
    assert set(last) == set(range(1, n_steps + 1))
    for step, used in last.items():
        assert len(used) == len(set(used)) <= N_BATCH, step


def test_a_kill_a_leaders_kill_a_shrink_and_growth(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """Survivors go on within the process they are in; newcomers get the state from them."""
    cluster.begin(4)
    cluster.wait_for_size(4)
    killed = cluster.replace(2)
    cluster.wait_for_size(3, killed)
    cluster.wait_for_size(4, killed)
    lost = cluster.replace(cluster.leader())
    cluster.wait_for_size(3, lost)
    shrunk = cluster.resize(2)
    cluster.wait_for_size(2, shrunk)
    cluster.resize(4)

    ended = cluster.wait_for_end()

    assert ended[:2] == [0, 0]
    assert cluster.pause_after(killed) < 1.0
    assert cluster.pause_after(lost) < 1.5
    check_ending(cluster, undisturbed)


@pytest.mark.parametrize("seed", range(3))
def test_random_changes(cluster: TrainingCluster, undisturbed: np.ndarray, seed: int) -> None:
    """Kills of some or all, kills during a change, quick resizes: the result is the same.

    Where nobody is left who holds the state, they begin anew.
    """
    chance = random.Random(seed)
    size = chance.choice([2, 3, 4])
    cluster.begin(size)
    cluster.wait_for_size(size)
    for _ in range(4):
        time.sleep(chance.uniform(0.0, 0.4))
        if chance.random() < 0.5:
            n_killed = chance.choice([1, 1, 2, size])
            cluster.replace(*chance.sample(range(size), min(n_killed, size)))
        else:
            size = chance.choice([other for other in (2, 3, 4) if other != size])
            cluster.resize(size)
            if chance.random() < 0.5:  # during the change
                time.sleep(chance.uniform(0.0, 0.2))
                cluster.replace(chance.randrange(size))

    ended = cluster.wait_for_end()

    # A process that was told to go before it could listen to signals ended by the signal.
    assert set(ended) <= {0, 143, -signal.SIGTERM}, cluster.errors()
    check_ending(cluster, undisturbed)


def test_new_processes_begin_anew_when_nobody_holds_the_state(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """The only one that trained is killed while the others still load."""
    cluster.begin(1)
    cluster.wait_for_size(1)
    cluster.resize(4)
    lost = cluster.replace(0)
    cluster.wait_for_size(4, lost)

    assert cluster.wait_for_end() == [0, 0, 0, 0]

    assert min(f["step"] for f in cluster.facts(lost) if f.get("size") == 4) == 1
    check_ending(cluster, undisturbed)


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
    check_ending(cluster, undisturbed)


def test_preempted_whole_and_resumed(
    tmp_path: Path, undisturbed: np.ndarray, cluster: TrainingCluster
) -> None:
    """When all are told to go, the state is saved; the next processes lose no step."""
    cluster.set_variable("CHECKPOINT", str(tmp_path / "checkpoint"))
    cluster.begin(3)
    cluster.wait(lambda: any(fact.get("step", 0) > 20 for fact in cluster.facts()))
    for process in cluster.processes.values():
        process.terminate()
    assert cluster.wait_for_end() == [143, 143, 143]
    reached = max(fact.get("step", 0) for fact in cluster.facts())
    cluster.begin(2)

    assert cluster.wait_for_end()[:2] == [0, 0]

    resumed = [f for f in cluster.facts() if f["process"] in {"0-2", "1-2"} and "samples" in f]
    assert min(fact["step"] for fact in resumed) == reached + 1
    check_ending(cluster, undisturbed)
