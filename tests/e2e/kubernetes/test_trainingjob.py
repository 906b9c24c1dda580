"""The example of a master, two pservers and elastic trainers, in containers that find each other.

The image is Swell's own: it has a Python, which is all that the example needs.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from image.build import reference
from image.root import PYTHON
from swell.api.meta import Body
from tests.e2e.kubernetes.machine import RealMachine
from tests.testbed.cluster import ROOT

EXAMPLE = ROOT / "examples" / "parameter-server.yaml"
TOTAL = sum(number**2 for number in range(1, 41))
NAMESPACE = "e2e-trainingjob"
WITHIN_S = 150.0
POLL_S = 0.5
ENDS = ("Succeed", "Failed")


def read(machine: RealMachine, *terms: str) -> Body:
    found: Body = msgspec.json.decode(
        machine.kubectl.ok("get", "-n", NAMESPACE, *terms, "-o", "json")
    )
    return found


def until_phase(machine: RealMachine, *phases: str) -> Body:
    """The status, as soon as the job is in one of these phases."""
    deadline = time.monotonic() + WITHIN_S
    while (status := read(machine, "trainingjob", "ps").get("status", {})).get(
        "phase"
    ) not in phases:
        assert time.monotonic() < deadline, f"not {phases} within {WITHIN_S:.0f} s: {status}"
        time.sleep(POLL_S)
    return dict(status)


def trainers(machine: RealMachine) -> list[Body]:
    pods: list[Body] = read(machine, "pods", "-l", "paddle-job=ps")["items"]
    return [pod for pod in pods if "trainer" in pod["metadata"]["name"]]


def test_training_job_in_containers(machine: RealMachine, tmp_path: Path) -> None:
    """Every piece of work is counted once, also when a trainer is killed in the middle of it."""
    manifest = tmp_path / "ps.yaml"
    text = EXAMPLE.read_text(encoding="utf-8")
    text = text.replace("image: local", f"image: {reference()}")
    manifest.write_text(text.replace("entrypoint: python ", f"entrypoint: python{PYTHON} "))
    machine.kubectl.ok("create", "namespace", NAMESPACE)
    machine.kubectl.ok("apply", "-n", NAMESPACE, "-f", str(manifest))

    running = until_phase(machine, "Running", *ENDS)
    assert running["phase"] == "Running", running
    victim = trainers(machine)[0]["metadata"]["name"]
    machine.kubectl.ok("delete", "pod", "-n", NAMESPACE, victim, "--grace-period=0", "--force")
    status = until_phase(machine, *ENDS)
    assert status["phase"] == "Succeed", status
    names = [pod["metadata"]["name"] for pod in trainers(machine)]
    said = "".join(machine.kubectl.ok("logs", "-n", NAMESPACE, name) for name in names)

    assert f"total {float(TOTAL)}" in said
    machine.kubectl.ok("delete", "trainingjob", "-n", NAMESPACE, "ps")
    machine.kubectl.ok("wait", "pods", "-n", NAMESPACE, "--all", "--for=delete", "--timeout=60s")
    machine.kubectl.ok("delete", "namespace", NAMESPACE, "--wait=false")
