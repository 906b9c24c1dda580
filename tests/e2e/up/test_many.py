"""Many pods of one job on one machine: real processes, counted in the machine's own list."""

from __future__ import annotations

from swell.node.process.folders import Folders
from tests.e2e.up.machine import Machine, until

N_PODS = 200


def n_sleeping(machine: Machine) -> int:
    return sum(line.startswith("sleep 1000") for line in machine.processes())


def test_two_hundred_pods_of_a_job(machine: Machine) -> None:
    """Every one has its process, and with the job every one is gone, with its folder."""
    machine.start()
    arguments = ("--min", str(N_PODS), "--", "sleep", "1000")
    machine.swell("run", "--detach", "--name", "many", *arguments)
    until(lambda: n_sleeping(machine) == N_PODS, lambda: str(machine.job("many").get("status")))
    machine.until_phase("many", "Running")

    assert machine.job("many")["status"]["ready"] == f"{N_PODS}/{N_PODS}"
    machine.swell("delete", "many")
    until(lambda: n_sleeping(machine) == 0)
    until(lambda: not list(Folders(machine.home).pods.iterdir()))
    assert not [line for line in machine.processes() if "supervise" in line]
