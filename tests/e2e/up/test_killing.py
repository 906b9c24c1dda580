"""A few rounds of the kill harness; `make sim` runs more, and `KILLS=200` as many as wanted."""

from __future__ import annotations

from tests.e2e.up.killing import KillHarness
from tests.e2e.up.machine import Machine


def test_killed_cluster_loses_nothing_and_leaves_no_stray_process(machine: Machine) -> None:
    """Creates, deletes, log reads and resizes go on until the kill."""
    harness = KillHarness(machine, seed=3)
    findings = harness.run(4)

    assert findings.lost == []
    assert findings.strays == []
    assert findings.rounds == 4
    assert harness.configs.n_acknowledged > 20
    assert harness.jobs.n_acknowledged > 4
