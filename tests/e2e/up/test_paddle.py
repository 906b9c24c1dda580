"""PaddlePaddle itself in jobs of both kinds: its role maker finds every process in its place.

The processes are those of the jobs' pods, and PaddlePaddle's own code reads their environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from swell.api.meta import Body
from tests.e2e.up.machine import Machine

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("paddle_program.py")
# Where `make e2e` installs it: its requirements and ours cannot be met in one environment.
PYTHON = ROOT / ".venv" / "paddle" / "bin" / "python"
# Six processes load PaddlePaddle at once.
WITHIN_S = 240.0
STEPS = 20  # of the program
# Later builds for CPUs come without parameter servers; then the role maker is asked alone.
HAS_SERVERS = sys.version_info < (3, 13)
# Rank 0 of a collective takes its port on every address of the machine, which all pods share.
PORTS = {"servers": 7164, "collective": 7264}
SMALL: Body = {"requests": {"cpu": "100m", "memory": "64Mi"}}


def command(mode: str) -> list[str]:
    assert PYTHON.exists(), f"{PYTHON} is missing: `make e2e` installs PaddlePaddle there"
    return [str(PYTHON), str(PROGRAM), mode]


def training_job(name: str, mode: str, **spec: object) -> Body:
    entrypoint = " ".join(command(mode))
    role = {"entrypoint": entrypoint, "min-instance": 2, "resources": SMALL}
    roles = {"trainer": role} if mode == "collective" else {"trainer": role, "pserver": role}
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"image": "local", "port": PORTS[mode], **roles, **spec},
    }


def ai_training_job(name: str, mode: str) -> Body:
    container = {"name": "aitj-main", "image": "local", "command": command(mode)}
    ports = {"ports": [{"name": "aitj-port", "containerPort": PORTS[mode]}], "resources": SMALL}
    template = {"spec": {"containers": [{**container, **ports}]}}
    roles: Body = {"trainer": {"replicas": 2, "template": template}}
    if mode == "servers":
        # Servers run until the trainers are done.
        roles["pserver"] = {"replicas": 2, "completePolicy": "None", "template": template}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"frameworkType": "paddlepaddle", "replicaSpecs": roles},
    }


JOBS = {
    "trainingjob": training_job,
    "trainingjob-multi": lambda name, mode: training_job(
        name, mode, frame_work={"name": "paddle", "type": "multi"}
    ),
    "aitrainingjob": ai_training_job,
}
COLLECTIVE_JOBS = {
    "trainingjob": lambda name, mode: training_job(name, mode, is_nccl=True),
    "aitrainingjob": ai_training_job,
}


def outcome(machine: Machine, body: Body) -> list[tuple[str, Any]]:
    """What the processes told, with the replica that each line is of."""
    manifest = machine.folder / "paddle.yaml"
    manifest.write_text(yaml.safe_dump(body))
    running = machine.begin("run", str(manifest))
    out, errors = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 0, f"{out}\n{errors}"
    machine.swell("delete", body["metadata"]["name"])
    return list(told(out))


def told(out: str) -> Iterator[tuple[str, Any]]:
    for line in out.splitlines():
        source, _, text = line.partition("] ")
        if text.startswith("{"):
            yield source.lstrip("["), json.loads(text)


@pytest.mark.parametrize("kind", JOBS)
def test_role_maker_with_parameter_servers(running: Machine, kind: str) -> None:
    """Each process finds its role, its number and all pservers, and trainers reach those."""
    found = outcome(running, JOBS[kind](f"ps-{kind}", "servers"))
    roles = [facts for _, facts in found if "role" in facts]
    trained = [facts["n_steps"] for _, facts in found if "n_steps" in facts]

    assert sorted((one["role"], one["index"]) for one in roles) == [
        ("pserver", 0),
        ("pserver", 1),
        ("trainer", 0),
        ("trainer", 1),
    ]
    assert {one["n_trainers"] for one in roles} == {2}
    assert len({tuple(one["pservers"]) for one in roles}) == 1
    assert len(set(roles[0]["pservers"])) == 2
    assert trained == [STEPS] * (2 if HAS_SERVERS else 0)


@pytest.mark.parametrize("kind", COLLECTIVE_JOBS)
def test_role_maker_of_a_collective(running: Machine, kind: str) -> None:
    """Each trainer finds its number and the others, and they reduce over all of them."""
    found = outcome(running, COLLECTIVE_JOBS[kind](f"all-{kind}", "collective"))
    roles = [(source, facts) for source, facts in found if "role" in facts]

    assert sorted((source, facts["index"]) for source, facts in roles) == [
        ("trainer-0", 0),
        ("trainer-1", 1),
    ]
    assert {facts["n_trainers"] for _, facts in roles} == {2}
    assert len({tuple(facts["trainers"]) for _, facts in roles}) == 1
    assert [facts["sum"] for _, facts in found if "sum" in facts] == [3.0, 3.0]
