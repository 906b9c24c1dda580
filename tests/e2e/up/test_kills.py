"""`kill -9` of a whole cluster, again and again, at moments that nobody has chosen."""

from __future__ import annotations

import random
import time

import pytest

from swell.cluster.home import holder
from tests.e2e.up.machine import FLAGS, Machine

N_KILLS = 3
N_STEPS = 5
MOMENT_S_MAX = 2.0


@pytest.mark.parametrize("seed", [1])
def test_jobs_end_well_however_often_the_cluster_is_killed(machine: Machine, seed: int) -> None:
    """Every job succeeds, each of its processes was started once, and none is left over.

    Half of the kills hit a cluster that is still starting.
    """
    chance = random.Random(seed)
    machine.start()
    names = ("one", "two", "three")
    for name in names:
        script = f"echo begun >> {name}; for i in $(seq {N_STEPS}); do sleep 1; done; echo done"
        machine.swell("run", "--detach", "--name", name, "--min", "2", "--", "sh", "-c", script)
    for n in range(N_KILLS):
        if n % 2:
            _kill_while_starting(machine, chance.uniform(0, MOMENT_S_MAX))
        else:
            time.sleep(chance.uniform(0, MOMENT_S_MAX))
            machine.kill()
        machine.start()
    for name in names:
        machine.until_phase(name, "Succeed")

        assert (machine.folder / name).read_text() == "begun\n" * 2
        assert machine.swell("logs", name).stdout == "[trainer-0] done\n[trainer-1] done\n"


def _kill_while_starting(machine: Machine, after_s: float) -> None:
    machine.kill()
    with machine.begin("up", *FLAGS) as up:
        time.sleep(after_s)
        up.kill()
    assert holder(machine.home) is None
