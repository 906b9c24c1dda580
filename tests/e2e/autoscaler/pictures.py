"""Draws the pictures of docs/elasticity.md from runs on embedded clusters of this machine.

    python -m tests.e2e.autoscaler.pictures [FOLDER]

One is of jobs that share hollow nodes, one of a model that is trained by processes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.autoscaler.chart import Curve, Panel, Point, draw
from tests.e2e.autoscaler.record import Look, Record
from tests.e2e.autoscaler.training import GUEST, JAX, MOST, Training, train
from tests.e2e.up.machine import Machine

DOCS = Path(__file__).parents[3] / "docs" / "pictures"
ELASTIC = ("ant", "bee", "cat")
GANG, GANG_SIZE, GANG_S = "gang", 6, 15
N_CPUS = 16


def main(terms: Sequence[str]) -> int:
    folder = Path(terms[0]) if terms else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        machine = Machine(Path(made))
        try:
            shared = share(machine)
        finally:
            machine.swell("down")
    (folder / "sharing.svg").write_text(draw_sharing(shared))
    with tempfile.TemporaryDirectory() as made:
        machine = Machine(Path(made))
        try:
            trained = train(machine, JAX, is_leader_lost=True)
        finally:
            machine.swell("down")
    (folder / "training.svg").write_text(draw_training(trained))
    return 0


def share(machine: Machine) -> Record:
    """Elastic jobs come one after the other, then a gang that soon leaves, then one job ends."""
    machine.swell("up", "--detach", "--hollow", "--nodes", "4", "--cpu", "4", "--memory", "8Gi")
    record = Record(machine.home / "kubeconfig")
    size = ("--min", "2", "--max", "8", "--cpu", "1", "--memory", "64Mi")
    for name in ELASTIC:
        machine.swell("run", "--detach", "--name", name, *size, "--", "train")
        record.go_on(8)
    machine.swell("apply", "-f", str(_gang(machine.folder)))
    record.until("the gang runs", lambda now: now.size(GANG) == GANG_SIZE)
    record.until("the gang is gone", lambda now: now.phase(GANG) == "Succeed")
    record.go_on(10)
    machine.swell("delete", ELASTIC[0])
    record.go_on(10)
    return record


def draw_sharing(record: Record) -> str:
    names = (*ELASTIC, GANG)
    start = record.looks[0].at
    sizes = [Curve(name, _sizes(record.looks, name, start), stepped=True) for name in names]
    load = Curve("requested", [(look.at - start, 100 * look.load) for look in record.looks], True)
    most = Curve("desired at most", [(0, 97), (record.looks[-1].at - start, 97)])
    return draw(
        "Replicas of four jobs and the cluster's load over time",
        [Panel("running replicas", sizes, 8), Panel("cpu, % of the cluster", [load, most], 100)],
    )


def draw_training(trained: Training) -> str:
    looks, start = trained.record.looks, trained.record.looks[0].at
    steps = [line for line in trained.lines if line.what == "step"]
    loss = Curve("loss", [(line.at - start, line.loss) for line in steps])
    trainers = Curve("in a step", [(line.at - start, line.size) for line in steps], stepped=True)
    pods = Curve("pods", _sizes(looks, JAX, start), stepped=True)
    guest = Curve("pods of a guest", _sizes(looks, GUEST, start), stepped=True)
    return draw(
        "Loss of a model and the number of its trainers over time",
        [
            Panel("loss on points that are not trained on", [loss], 2),
            Panel("trainers", [trainers, pods, guest], MOST),
        ],
    )


def _sizes(looks: Sequence[Look], job: str, start: float) -> list[Point]:
    return [(look.at - start, look.size(job)) for look in looks]


def _gang(folder: Path) -> Path:
    """A rigid job whose hollow pods run for a while."""
    path = folder / "gang.yaml"
    path.write_text(f"""
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {{name: {GANG}}}
spec:
  replicaSpecs:
    trainer:
      replicas: {GANG_SIZE}
      template:
        metadata:
          annotations: {{elasticdeeplearning.ai/hollow-duration: "{GANG_S}"}}
        spec:
          containers:
            - name: aitj-trainer
              image: local
              resources: {{requests: {{cpu: "1", memory: 64Mi}}}}
""")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
