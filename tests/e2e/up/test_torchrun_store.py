"""Real torchrun, whose store has a pod of its own: the death of pod 0 ends no other agent."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from swell.api.meta import Body
from tests.e2e.launch.programs import ROOT, TORCH, interpreter
from tests.e2e.up.machine import Machine
from tests.e2e.up.test_framework_examples import wait

pytestmark = pytest.mark.long
JOB = "train-torchrun"
SIZE = 3


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    path = f"{Path(interpreter(TORCH)).parent}:{os.environ['PATH']}"
    made = Machine(tmp_path, {"PATH": path})
    made.start()
    yield made
    made.swell("down")
    assert made.processes() == []


def documented_role() -> Body:
    """The role that docs/launch.md tells people to add."""
    text = (ROOT / "docs" / "launch.md").read_text()
    _, _, section = text.partition("### When the keeper of the store dies")
    found = re.search(r"```yaml\n(replicaSpecs:.*?)```", section, re.S)
    assert found is not None
    role: Body = yaml.safe_load(found[1])["replicaSpecs"]["master"]
    return role


def start(machine: Machine) -> None:
    """Run the example for torchrun with that role, and without an end."""
    documents: list[Body] = list(yaml.safe_load_all((ROOT / f"examples/{JOB}.yaml").read_text()))
    roles = documents[1]["spec"]["replicaSpecs"]
    roles["master"] = documented_role()
    # The pods of this cluster have Swell's own interpreter before all others.
    store = roles["master"]["template"]["spec"]["containers"][0]
    store["command"][0] = interpreter(TORCH)
    roles["trainer"] |= {"edlPolicy": "Manual", "replicas": SIZE}
    pod = roles["trainer"]["template"]["spec"]
    pod["volumes"][1]["hostPath"]["path"] = str(machine.folder / "checkpoints")
    variables = pod["containers"][0]["env"]
    variables.append({"name": "PET_NNODES", "value": "1:4"})
    for variable in variables:
        if variable["name"] == "SAMPLES":
            variable["value"] = "1000000000"
    changed = machine.folder / "job.yaml"
    changed.write_text(yaml.safe_dump_all(documents))
    machine.swell("validate", str(changed))
    machine.swell("run", "--detach", str(changed))


def steps(machine: Machine, since: float) -> list[Body]:
    """What the first trainers have told of their steps, whichever pods they were in."""
    logs = (machine.home / "logs" / "default" / JOB).glob("*/*.log")
    told = (re.findall(r"step (\{.*\})$", log.read_text(), re.M) for log in logs)
    found: list[Body] = [json.loads(one) for lines in told for one in lines]
    return [one for one in found if one["at"] > since]


def agents(machine: Machine) -> dict[int, int]:
    """The agents' processes by the index of their pod."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode().split("\0")
            variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has just ended
            continue
        is_ours = f"HOME={machine.folder}" in variables and any(
            part.endswith("/torchrun") for part in command[:2]
        )
        if is_ours:
            named = dict(one.partition("=")[::2] for one in variables)
            found[int(named["TRAININGJOB_REPLICA_INDEX"])] = int(entry.name)
    return found


def test_agents_outlive_pod_0_if_the_store_has_a_pod_of_its_own(machine: Machine) -> None:
    start(machine)
    wait(lambda: any(one["size"] == SIZE for one in steps(machine, 0.0)))
    before = agents(machine)
    assert sorted(before) == list(range(SIZE))

    os.kill(before[0], signal.SIGKILL)
    killed = time.time()
    wait(lambda: any(one["size"] == SIZE for one in steps(machine, killed + 1.0)))
    after = agents(machine)

    assert after.pop(0) != before.pop(0)
    assert after == before
    assert machine.job(JOB)["status"]["restartCounts"] == {"trainer": 1}
