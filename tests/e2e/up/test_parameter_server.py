"""The example of a master, two pservers and an elastic trainer, as processes of one machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swell.api.meta import Body
from swell.node.process.folders import Folders
from tests.e2e.up.machine import Machine, until

EXAMPLE = Path(__file__).parents[3] / "examples" / "parameter-server.yaml"
TOTAL = sum(number**2 for number in range(1, 41))


def read(machine: Machine, *arguments: str) -> Body:
    found: Body = msgspec.json.decode(machine.swell("get", *arguments, "-o", "json").stdout)
    return found


def test_processes_of_a_training_job_work_together(running: Machine) -> None:
    """Every piece of work is done, and counted once, whichever trainers were there to do it."""
    running.swell("apply", "-f", str(EXAMPLE))
    until(
        lambda: read(running, "tj", "ps").get("status", {}).get("phase") in {"Succeed", "Failed"},
        lambda: str(read(running, "tj", "ps").get("status")),
    )
    status = read(running, "tj", "ps")["status"]
    logs = sorted(Folders(running.home).logs.rglob("trainer.log"))
    printed = "".join(log.read_text() for log in logs)

    assert status["phase"] == "Succeed", status
    assert f"total {float(TOTAL)}" in printed
    running.swell("delete", "tj", "ps")
    until(lambda: not read(running, "pods").get("items"), lambda: str(read(running, "pods")))
