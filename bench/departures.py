"""Work that a voluntary departure costs a real training, with and without saving before release.

On `swell up`, ten small trainings run, each a job of its own. An important job takes all their room
at a random moment, gives it back, and takes it again, until every training has been preempted ten
times: 50 departures with the protocol and 50 without. All save every few seconds. Those with the
protocol save once more when they are asked to leave; those without are released and stopped at
once. The work lost is what the next process does again: the time from the step that it goes on
from to the last step of the one before.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from random import Random

from bench.budgets import Budget, at_most
from swell.api.meta import Body
from tests.e2e.launch.programs import library_path
from tests.e2e.up.machine import Machine

N_EACH, ROUNDS = 5, 10
SAVE_EVERY_S = 5
# How long all train before they are preempted: up to one interval of saves more than the least.
TRAINS_S = 2.0
WITHIN_S = 120.0
ASKED: dict[str, Budget] = {"steps lost with, median": at_most(1)}
SCRIPT = """\
import json, os, sys, time
import numpy as np
from swell.train import Elastic

chance = np.random.default_rng(1)
points = chance.normal(size=(4096, 32))
wanted = points @ chance.normal(size=32)
net, speed = {"w": np.zeros(32)}, {"w": np.zeros(32)}
model = Elastic(net, speed, checkpoint=os.environ["FOLDER"], save_every=float(os.environ["EVERY"]))
facts = open(f"{os.environ['FOLDER']}.{time.time_ns()}", "w")
for x, y in model.batches(list(zip(points, wanted)), batch_size=64, epochs=10_000):
    done = model.steps
    with model.step():
        time.sleep(0.02)
        found = model.average({"w": x.T @ (x @ net["w"] - y) / len(x)})
        speed["w"] *= 0.9
        speed["w"] += found["w"]
        net["w"] -= 0.01 * speed["w"]
    if model.steps > done:
        facts.write(json.dumps([model.steps, time.time()]) + "\\n")
        facts.flush()
"""


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="swell-departures-") as name:
        folder = Path(name)
        machine = Machine(folder, library_path(folder))
        with machine.up("--cpu", str(2 * N_EACH), "--memory", "32Gi"):
            _preempt_all(machine, folder)
        return _figures(folder)


def _preempt_all(machine: Machine, folder: Path) -> None:
    chance = Random(7)
    (folder / "train.py").write_text(SCRIPT)
    items = [_priority("low", 1), _priority("high", 9), _preemptor()]
    items += [_training(folder, name) for name in _names()]
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    machine.swell("apply", "-f", str(path))
    for n_round in range(1, ROUNDS + 1):
        _wait(lambda n=n_round: _all_have_stepped(folder, n))
        time.sleep(TRAINS_S + chance.uniform(0, SAVE_EVERY_S))
        machine.swell("resume", "important")
        _wait(lambda: machine.phase("important") == "Running")
        machine.swell("suspend", "important")
    _wait(lambda: _all_have_stepped(folder, ROUNDS + 1))


def _names() -> list[str]:
    return [f"{kind}-{n}" for kind in ("saves", "plain") for n in range(N_EACH)]


def _figures(folder: Path) -> dict[str, object]:
    figures: dict[str, object] = {"departures of each kind": N_EACH * ROUNDS}
    for kind, label in (("saves", "with"), ("plain", "without")):
        losses = [
            loss for name in _names() if name.startswith(kind) for loss in _losses(folder, name)
        ]
        figures |= {
            f"steps lost {label}, median": statistics.median(steps for steps, _ in losses),
            f"steps lost {label}, most": max(steps for steps, _ in losses),
            f"seconds lost {label}, median": statistics.median(seconds for _, seconds in losses),
            f"seconds lost {label}, most": max(seconds for _, seconds in losses),
        }
    return figures


def _losses(folder: Path, name: str) -> list[tuple[int, float]]:
    """Steps and seconds of work that each process of a job has lost to its successor."""
    runs = [run for path in _facts(folder, name) if (run := _steps(path))]
    found = []
    for before, after in pairwise(runs):
        begins = after[0][0]
        lost = [at for step, at in before if step >= begins]
        # The work of the first lost step began when the step before it was done.
        since = max((at for step, at in before if step < begins), default=before[0][1])
        found.append((len(lost), before[-1][1] - since if lost else 0.0))
    return found[:ROUNDS]


def _steps(path: Path) -> list[tuple[int, float]]:
    rows = [line for line in path.read_text().splitlines() if line.endswith("]")]
    return [(int(step), float(at)) for step, at in map(json.loads, rows)]


def _facts(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}.[0-9]*"))


def _all_have_stepped(folder: Path, n_processes: int) -> bool:
    """Whether the n-th process of every job has done a step. The files are not read: they grow."""
    return all(
        sum(path.stat().st_size > 0 for path in _facts(folder, name)) >= n_processes
        for name in _names()
    )


def _wait(holds: object) -> None:
    assert callable(holds)
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {WITHIN_S:.0f} s")
        time.sleep(0.2)


def _priority(name: str, value: int) -> Body:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


def _training(folder: Path, name: str) -> Body:
    saves = name.startswith("saves")
    pod: Body = {
        "terminationGracePeriodSeconds": 30 if saves else 0,
        "containers": [
            {
                "name": "aitj-main",
                "image": "local",
                "command": ["python", str(folder / "train.py")],
                "env": [
                    {"name": "FOLDER", "value": str(folder / name)},
                    {"name": "EVERY", "value": str(SAVE_EVERY_S)},
                    {"name": "OPENBLAS_NUM_THREADS", "value": "1"},
                    {"name": "PYTHONPATH", "value": library_path(folder)["PYTHONPATH"]},
                ],
                "resources": {"requests": {"cpu": "1", "memory": "256Mi"}},
            }
        ],
    }
    spec: Body = {} if saves else {"saveSeconds": 0}
    return _job(name, {"replicas": 1, "template": {"spec": pod}}, priority="low", **spec)


def _preemptor() -> Body:
    container = {
        "name": "aitj-main",
        "image": "local",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
    }
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    role: Body = {"replicas": 2 * N_EACH, "template": {"spec": pod}}
    return _job("important", role, priority="high", suspend=True)


def _job(name: str, role: Body, **spec: object) -> Body:
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {
            "reporting": True,
            "replicaSpecs": {"main": {**role, "restartPolicy": "Always"}},
            **spec,
        },
    }
