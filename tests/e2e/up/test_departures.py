"""Trainings that lose nothing when they have to go, one that never answers, and one that hangs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from swell.api.meta import Body
from tests.e2e.launch.programs import library_path
from tests.e2e.up.machine import Machine, until

# Learns a line, prints every step, and hangs once at a step if it is told to.
TRAINS = """
import os, time
import numpy as np
from swell.train import Elastic

folder, hang_at = os.environ["FOLDER"], int(os.environ.get("HANG_AT", "0"))

def stuck_in_the_driver():
    open(f"{folder}.hung", "w").close()
    time.sleep(3600)

chance = np.random.default_rng(1)
points = chance.normal(size=(512, 8))
wanted = points @ chance.normal(size=8)
net, speed = {"w": np.zeros(8)}, {"w": np.zeros(8)}
model = Elastic(net, speed, checkpoint=folder, save_every=3600)
for x, y in model.batches(list(zip(points, wanted)), batch_size=32, epochs=100_000):
    done = model.steps
    with model.step():
        time.sleep(0.02)
        if done == hang_at > 0 and model.rank == 1 and not os.path.exists(f"{folder}.hung"):
            stuck_in_the_driver()
        net["w"] -= 0.01 * model.average({"w": x.T @ (x @ net["w"] - y) / len(x)})["w"]
    if model.steps > done:
        print(f"step {model.steps}", flush=True)
"""
# Sees the request to leave, and neither saves nor leaves.
MUTE = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    text = open(os.environ["SWELL_RELEASE_FILE"]).read()
    if text:
        print("asked", text, flush=True)
        time.sleep(3600)
    time.sleep(0.05)
"""


def role(folder: Path, name: str, program: str, **env: str) -> Body:
    script = folder / f"{name}.py"
    script.write_text(program)
    variables = {"FOLDER": str(folder / name), "OPENBLAS_NUM_THREADS": "1"}
    variables |= {**library_path(folder), **env}
    container: Body = {
        "name": "aitj-main",
        "image": "local",
        "command": [sys.executable, str(script)],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": {"requests": {"cpu": "1", "memory": "128Mi"}},
    }
    pod: Body = {"terminationGracePeriodSeconds": 10, "containers": [container]}
    return {"replicas": 1, "restartPolicy": "Always", "template": {"spec": pod}}


def submit(machine: Machine, name: str, role: Body, *others: Body, **spec: object) -> None:
    job: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"reporting": True, "replicaSpecs": {"main": role}, **spec},
    }
    path = machine.folder / f"{name}.json"
    items = [*others, job]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    machine.swell("apply", "-f", str(path))


def logs(machine: Machine, name: str, index: int = 0) -> list[str]:
    """The log of each process of a member that there was, in their order."""
    paths = (machine.home / "logs" / "default" / name).glob(f"main-{index}*/*.log")
    return [path.read_text() for path in sorted(paths, key=lambda path: path.stat().st_mtime)]


def steps(machine: Machine, name: str) -> list[int]:
    return [int(n) for n in re.findall(r"^step (\d+)$", "".join(logs(machine, name)), re.MULTILINE)]


def n_redone(found: list[int]) -> int:
    return len(found) - len(set(found))


def test_suspended_training_goes_on_with_the_next_step(running: Machine) -> None:
    """It saves when it is asked to leave: the checkpoint is no older than its last step."""
    submit(running, "paused", role(running.folder, "paused", TRAINS))
    until(lambda: len(steps(running, "paused")) > 20)
    running.swell("suspend", "paused")
    until(lambda: running.phase("paused") == "Pending")
    until(lambda: "paused-main" not in running.swell("get", "pods").stdout)
    before = steps(running, "paused")
    running.swell("resume", "paused")
    until(lambda: len(steps(running, "paused")) > len(before) + 20)
    after = steps(running, "paused")[len(before) :]
    running.swell("delete", "aitj", "paused")

    assert before[-1] - after[0] + 1 <= 1, (before[-1], after[0])


def test_preempted_trainings_save_or_are_released_in_time(running: Machine) -> None:
    """One saves and loses at most a step, one is deaf and goes at its deadline, both come again."""
    folder = running.folder
    classes: list[Body] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in (("low", 1), ("high", 9))
    ]
    submit(running, "saver", role(folder, "saver", TRAINS), *classes, priority="low")
    submit(running, "mute", role(folder, "mute", MUTE), priority="low", saveSeconds=2)
    until(lambda: len(steps(running, "saver")) > 20 and running.phase("mute") == "Running")
    until(lambda: running.job("saver")["status"].get("training", {}).get("saves") is True)
    before = steps(running, "saver")
    wide = role(folder, "wide", "import time; time.sleep(2)")
    wide["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "16"
    submit(running, "wide", wide, priority="high")
    until(lambda: running.phase("wide") == "Succeed")
    until(lambda: len(logs(running, "mute")) == 2)
    until(lambda: len(steps(running, "saver")) > len(before) + 40)
    found, asked = steps(running, "saver"), logs(running, "mute")[0]
    for name in ("saver", "mute", "wide"):
        running.swell("delete", "aitj", name)

    assert n_redone(found) <= 1
    assert "makes room for default/wide" in asked


def test_rank_that_hangs_is_found_with_the_stacks_of_all(running: Machine) -> None:
    """Both ranks print their stacks before the job restarts, and it trains on."""
    two = role(running.folder, "hangs", TRAINS, HANG_AT="20")
    submit(running, "hangs", {**two, "replicas": 2, "hangSeconds": 3})
    until(lambda: running.job("hangs")["status"].get("restarts", 0) >= 1)
    job = running.job("hangs")
    until(lambda: len(logs(running, "hangs")) == 2 and len(steps(running, "hangs")) > 30)
    first = [logs(running, "hangs", index)[0] for index in range(2)]
    running.swell("delete", "aitj", "hangs")

    assert all("no step for 3 s (hangSeconds)" in log for log in first), first
    assert any("in stuck_in_the_driver" in log for log in first)
    history = [entry.get("reason", "") for entry in job["status"]["phaseHistory"]]
    assert "Hang" in [*history, job["status"].get("reason", "")], job["status"]
