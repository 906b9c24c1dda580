"""The examples of real frameworks through resizes and a death, as people run them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from swell.api.meta import Body
from tests.e2e.launch.programs import PADDLE, ROOT, TORCH, interpreter, library_path
from tests.e2e.up.machine import Machine

pytestmark = pytest.mark.long
# Frameworks are loaded by several processes at once, beside other tests.
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("frameworks"))
    made.start()
    yield made
    made.swell("down")
    assert made.processes() == []


def start(machine: Machine, name: str, python: Path, **variables: str) -> None:
    """Run an example with an interpreter that has its framework; the test sets its sizes."""
    path = ROOT / "examples" / f"{name}.yaml"
    machine.swell("validate", str(path))
    documents: list[Body] = list(yaml.safe_load_all(path.read_text()))
    role = documents[1]["spec"]["replicaSpecs"]["trainer"]
    role |= {"edlPolicy": "Manual", "replicas": 2}
    pod = role["template"]["spec"]
    pod["volumes"][1]["hostPath"]["path"] = str(machine.folder / name)
    container = pod["containers"][0]
    container["command"][0] = interpreter(python)
    given = {one["name"]: one["value"] for one in container["env"]}
    given |= library_path(machine.folder) | variables
    container["env"] = [{"name": key, "value": value} for key, value in given.items()]
    changed = machine.folder / f"{name}.yaml"
    changed.write_text(yaml.safe_dump_all(documents))
    machine.swell("run", "--detach", str(changed))


def log_of(machine: Machine, job: str) -> str:
    return machine.swell("logs", job, "--role", "trainer", "--index", "0", expect=None).stdout


def test_torch_example_keeps_its_process(cluster: Machine) -> None:
    """The report tells the size of the group; trainer 0 is never started again."""
    start(cluster, "train-torch", TORCH, EPOCHS="100000")
    for size in (2, 3, 1):
        cluster.swell("scale", "train-torch", f"trainer={size}")
        wait(lambda size=size: reported(cluster, "train-torch").get("size") == size)  # type: ignore[misc]
    steps = int(reported(cluster, "train-torch")["step"])
    wait(lambda: int(reported(cluster, "train-torch")["step"]) > steps)

    assert not cluster.job("train-torch")["status"].get("restartCounts", {}).get("trainer")
    cluster.swell("delete", "train-torch")


def test_paddle_example_is_started_again(cluster: Machine) -> None:
    """Workers get their ranks anew (trainer 0 is not always the first), and no pass is lost."""
    start(cluster, "train-paddle", PADDLE, PASSES="1000000")
    for size in (2, 3, 1):
        cluster.swell("scale", "train-paddle", f"trainer={size}")
        wait(lambda size=size: f" of {size}\n" in log_of(cluster, "train-paddle"))  # type: ignore[misc]
    logs = (cluster.home / "logs" / "default" / "train-paddle").glob("*/*.log")
    passes = {int(n) for log in logs for n in re.findall(r"^pass (\d+):", log.read_text(), re.M)}

    assert passes == set(range(1, max(passes) + 1))
    cluster.swell("delete", "train-paddle")


def reported(machine: Machine, job: str) -> Body:
    found: Body = machine.job(job).get("status", {}).get("training", {})
    return found


def wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(2.0)
