"""Four processes train on one GPU by NCCL, through deaths and resizes: run by hand.

    python -m tests.e2e.train.on_gpu

It prints the pauses of those who stay, and how far the weights are from those of one process that
was never disturbed. Needs a GPU, torch, numpy and msgspec, and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.unit.train.cluster import ROOT, TrainingCluster, python

PROGRAM = [python(), "-m", "tests.e2e.train.torch_program"]
WITHIN_S = 60.0
SIZE = 4


def main() -> int:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    variables = {"EPOCHS": os.environ.get("EPOCHS", "20"), "DEVICE": "cuda", "PYTHONPATH": path}
    env = {**os.environ, **variables}
    alone = subprocess.run(PROGRAM, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
    undisturbed = np.array(json.loads(alone.stdout.splitlines()[-1])["final"])
    with tempfile.TemporaryDirectory() as folder:
        cluster = TrainingCluster(Path(folder), PROGRAM, **variables)
        cluster.set_pace(0.03)
        try:
            pauses = play(cluster)
            codes = cluster.wait_for_end(120.0)
        except AssertionError as error:
            sys.stdout.write(f"{error}\n")
            return 1
        finally:
            cluster.close()
        finals = [fact["final"] for fact in cluster.facts() if "final" in fact]
        errors = cluster.errors()
    differences = [float(np.abs(np.array(final) - undisturbed).max()) for final in finals]
    found = {"pauses in s": pauses, "exit codes": codes, "differences of weights": differences}
    sys.stdout.write(json.dumps(found) + "\n")
    if any(codes):
        sys.stdout.write(errors[-8000:])
    return int(any(codes))


def play(cluster: TrainingCluster) -> dict[str, float]:
    """Each event once; the longest time without a step of any process around it."""
    cluster.begin(SIZE)
    cluster.wait_for_size(SIZE, within_s=WITHIN_S)
    events = {"kill one": cluster.replace(2)}
    cluster.wait_for_size(SIZE - 1, events["kill one"], WITHIN_S)
    cluster.wait_for_size(SIZE, events["kill one"], WITHIN_S)
    events["kill the leader"] = cluster.replace(cluster.leader())
    cluster.wait_for_size(SIZE - 1, events["kill the leader"], WITHIN_S)
    cluster.wait_for_size(SIZE, events["kill the leader"], WITHIN_S)
    events["4 to 2"] = cluster.resize(2)
    cluster.wait_for_size(2, events["4 to 2"], WITHIN_S)
    grown = cluster.resize(SIZE)
    cluster.wait_for_size(SIZE, grown, WITHIN_S)
    # The others train on until the newcomers have loaded.
    facts = cluster.facts(grown)
    events["2 to 4"] = max(fact["at"] for fact in facts if fact.get("size") == 2)
    cluster.wait(lambda: len([f for f in cluster.facts() if f.get("size") == SIZE]) > SIZE)
    pauses = {name: round(cluster.pause_after(at), 2) for name, at in events.items()}
    cluster.set_pace(0.0)
    return pauses


if __name__ == "__main__":
    sys.exit(main())
