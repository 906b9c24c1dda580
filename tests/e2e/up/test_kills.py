"""`kill -9` of a whole cluster, again and again, at moments that nobody has chosen."""

from __future__ import annotations

import random
import time

import pytest

from swell.cluster.home import lock_holder
from tests.e2e.up.machine import FLAGS, Machine, until

N_KILLS = 10
N_PODS = 2
MOMENT_S_MAX = 1.5
NAMES = ("one", "two", "three")
# Every process begins once, and goes on until it is told to end.
SCRIPT = "echo begun >> {name}; until [ -e go ]; do sleep 0.1; done; echo done"


@pytest.mark.parametrize("seed", [1])
def test_jobs_end_well_however_often_the_cluster_is_killed(machine: Machine, seed: int) -> None:
    """Every job succeeds, each of its processes was started once, none is left over, and nothing
    that was acknowledged is lost. Every other kill hits a cluster that is still starting."""
    chance = random.Random(seed)
    machine.start()
    for name in NAMES:
        arguments = ("--min", str(N_PODS), "--", "sh", "-c", SCRIPT.format(name=name))
        machine.swell("run", "--detach", "--name", name, *arguments)
    for n in range(N_KILLS):
        _acknowledge(machine, f"kept-{n}")
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        machine.kill()
        if n % 2:
            _kill_while_starting(machine, chance.uniform(0, MOMENT_S_MAX))
        machine.start()
    until(lambda: len(_containers(machine)) == len(NAMES) * N_PODS)
    (machine.folder / "go").touch()
    for name in NAMES:
        machine.until_phase(name, "Succeed")

        assert (machine.folder / name).read_text() == "begun\n" * N_PODS
        assert machine.swell("logs", name).stdout == "[trainer-0] done\n[trainer-1] done\n"
    until(lambda: _containers(machine) == [])
    kept = machine.swell("get", "configmaps", "-o", "name").stdout.split()
    assert {f"configmap/kept-{n}" for n in range(N_KILLS)} <= set(kept)


def _acknowledge(machine: Machine, name: str) -> None:
    """Have the cluster say that it has something."""
    manifest = machine.folder / "kept.yaml"
    manifest.write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
    assert machine.swell("apply", "-f", str(manifest)).stdout == f"configmap/{name} created\n"


def _containers(machine: Machine) -> list[str]:
    """The shells of our jobs that run, by the machine's own list of processes."""
    return [line for line in machine.processes() if "echo begun" in line]


def _kill_while_starting(machine: Machine, after_s: float) -> None:
    with machine.begin("up", *FLAGS) as up:
        time.sleep(after_s)
        up.kill()
    assert lock_holder(machine.home) is None
