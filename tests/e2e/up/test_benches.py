"""Measurements that are ended before their time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.up.machine import Machine, until

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_measurement_ended_by_a_signal_leaves_no_cluster(
    tmp_path: Path, number: signal.Signals
) -> None:
    """It ends its cluster, with all processes of jobs, before it ends itself; the kernel does so
    where it cannot.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "bench", "departures"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    ) as measuring:
        until(lambda: len(list(tmp_path.glob("swell-departures-*/*.[0-9]*"))) > 3)  # they train
        (folder,) = tmp_path.iterdir()
        machine = Machine(folder)
        assert machine.processes() != []
        measuring.send_signal(number)
        code = measuring.wait(60)

    until(lambda: machine.processes() == [], lambda: str(machine.processes()))
    assert code == (-number if number is signal.SIGKILL else 128 + number)
    assert number is signal.SIGKILL or not folder.exists()
