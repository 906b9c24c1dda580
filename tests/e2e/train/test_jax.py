"""JAX through a kill and a resize, in the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.train.cluster import ROOT, TrainingCluster

pytestmark = pytest.mark.long

PYTHON = os.environ.get("SWELL_JAX_PYTHON", sys.executable)
PROGRAM = [PYTHON, "-m", "tests.e2e.train.jax_program"]
EPOCHS = "16"
# Three processes load JAX at once, beside other tests.
WITHIN_S = 240.0
# A step, while processes come and go: all of them take longer than any process takes to load.
SLOW_S = 1.0


def test_jax_survives_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    """Survivors neither start anew nor compile anew; weights are those of one process."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "EPOCHS": EPOCHS}
    alone = subprocess.run(PROGRAM, cwd=ROOT, env=env, check=True, capture_output=True)
    undisturbed = np.array(json.loads(alone.stdout.splitlines()[-1])["final"])
    cluster = TrainingCluster(tmp_path, PROGRAM, EPOCHS=EPOCHS)
    cluster.set_pace(SLOW_S)
    try:
        cluster.begin(3)
        cluster.wait_for_size(3, within_s=WITHIN_S)
        # JAX loads within a step: the successor comes when the others are seen to train alone.
        killed = cluster.kill(1)
        cluster.wait_for_size(2, killed, WITHIN_S)
        cluster.replace(1)
        cluster.wait_for_size(3, killed, within_s=WITHIN_S)
        shrunk = cluster.resize(2)
        cluster.wait_for_size(2, shrunk, WITHIN_S)
        cluster.set_pace(0.0)

        assert cluster.wait_for_end(300)[:2] == [0, 0]

        finals = [fact for fact in cluster.facts() if "final" in fact]
        assert len(finals) == 2
        for fact in finals:
            assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-5
    finally:
        cluster.close()


def test_what_scripts_do_besides_the_plain_loop() -> None:
    """Other shapes are not taken over, and a step whose beginning is gone is not redone."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    program = [PYTHON, "-m", "tests.e2e.train.jax_loop_program"]
    output = subprocess.run(program, cwd=ROOT, env=env, check=True, capture_output=True)
    found = json.loads(output.stdout.splitlines()[-1])

    assert found["shapes"] == [
        "none",
        "the state was made by another program: the shapes of its params are [[3]], and not [[4]]",
        "the state was made by another program: the shapes of its params are [[3]], and not"
        " [[], [3]]",
        "none",
    ]
    assert found["donated"].startswith("a step broke off after its update, which has donated the")
