"""The command line and a whole cluster of one machine, as somebody at it feels them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from bench.budgets import Budget, at_most
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.cluster.kube import calls
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.oneshot import OneShot
from tests.e2e.up.machine import SWELL, Machine

N_RUNS = 10
# Commands are compared with an interpreter that does nothing, both run in turn.
N_COMPARED = 20
N_PODS = 200
N_JOBS = 200
POLL_S = 0.02

ASKED: dict[str, Budget] = {
    f"import swell, ms (median of {N_COMPARED})": at_most(60),
    f"swell --help, ms (median of {N_COMPARED})": at_most(200),
    "swell get, times python -c pass": at_most(5),
    f"swell run -- true, ms (median of {N_COMPARED})": at_most(600),
    f"apply of {N_JOBS} jobs, s": at_most(4),
    f"sweep of {N_JOBS} jobs submitted after, s": at_most(5),
    f"submit to process start, ms (median of {N_RUNS})": at_most(500),
}


def run() -> dict[str, object]:
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        machine = Machine(Path(folder))
        with machine.up("--cpu", "64", "--memory", "64Gi", "--name", "here"):
            _commands(machine, figures)
            _bulk(machine, figures)
            _starts(machine, figures)
            _many(machine, figures)
    return figures


def _commands(machine: Machine, figures: dict[str, object]) -> None:
    nothing = "python -c pass"
    lines = {
        nothing: (sys.executable, "-c", "pass"),
        "import swell": (sys.executable, "-c", "import swell"),
        "swell --help": (*SWELL, "--help"),
        "swell get": (*SWELL, "get"),
        "swell run -- true": (*SWELL, "run", "--", "true"),
    }
    took: dict[str, list[float]] = {name: [] for name in lines}
    # In turn, so that a machine that is busy for a while is so for all of them.
    for _ in range(N_COMPARED):
        for name, arguments in lines.items():
            took[name].append(_timed(machine, arguments))
    least = statistics.median(took[nothing])
    for name, times in took.items():
        middle = statistics.median(times)
        figures[f"{name}, ms (median of {N_COMPARED})"] = middle * 1e3
        figures[f"{name}, times {nothing}"] = middle / least


def _bulk(machine: Machine, figures: dict[str, object]) -> None:
    """Many jobs by one command. They wait for a scheduler that is not there, and cost no more."""
    jobs = [_job(f"bulk-{n}", ["true"]) for n in range(N_JOBS)]
    for job in jobs:
        job["spec"]["schedulerName"] = "nobody"
    file = machine.folder / "bulk.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))
    figures[f"apply of {N_JOBS} jobs, s"] = _timed(machine, (*SWELL, "apply", "-f", str(file)))
    machine.swell("delete", "-f", str(file), "--no-wait")
    _until(lambda: not machine.swell("get", "-o", "name").stdout.count("bulk-"))
    sweep = ("sweep", "--detach", "--name", "s", "--array", f"0-{N_JOBS - 1}", "--", "true")
    began = time.perf_counter()
    figures[f"sweep of {N_JOBS} jobs submitted after, s"] = _timed(machine, (*SWELL, *sweep))
    machine.swell("attach", "sweep/s")
    figures[f"sweep of {N_JOBS} jobs done after, s"] = time.perf_counter() - began
    machine.swell("delete", "sweep/s", "--no-wait")


def _timed(machine: Machine, arguments: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run(arguments, env=machine.environment, capture_output=True, check=True)
    return time.perf_counter() - began


def _starts(machine: Machine, figures: dict[str, object]) -> None:
    """From the answer to a job's creation to its process's first act."""
    access = read_kubeconfig([machine.home / "kubeconfig"])
    delays = []
    client = OneShot(access, Random(1))
    for n in range(N_RUNS):
        stamp = machine.folder / f"stamp-{n}"
        client.send(calls.create(AI_TRAINING_JOBS, _job(f"one-{n}", ["touch", str(stamp)])))
        answered = time.time()
        _until(stamp.exists)
        delays.append(stamp.stat().st_mtime - answered)
    figures[f"submit to process start, ms (median of {N_RUNS})"] = statistics.median(delays) * 1e3
    figures["submit to process start, ms (worst)"] = max(delays) * 1e3


def _job(name: str, command: list[str]) -> Body:
    container = {"name": "aitj-trainer", "image": "local", "command": command}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicaSpecs": {"trainer": {"replicas": 1, "template": template}}},
    }


def _many(machine: Machine, figures: dict[str, object]) -> None:
    began = time.perf_counter()
    arguments = ("--min", str(N_PODS), "--", "sleep", "1000")
    machine.swell("run", "--detach", "--name", "many", *arguments)
    _until(lambda: _n_sleeping(machine) == N_PODS)
    figures[f"a job of {N_PODS} pods runs after, s"] = time.perf_counter() - began
    began = time.perf_counter()
    machine.swell("delete", "many")
    _until(lambda: _n_sleeping(machine) == 0)
    figures[f"a job of {N_PODS} pods is gone after, s"] = time.perf_counter() - began


def _n_sleeping(machine: Machine) -> int:
    return sum(line.startswith("sleep 1000") for line in machine.processes())


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(POLL_S)
