"""The example for PyTorch's launcher: with the real one if there is one, else with a stand-in.

From the package registry PyTorch comes only with gigabytes of libraries for GPUs, too much for a
test. So what is tested everywhere is what Swell does for torchrun; that torchrun then trains is
seen only where it is installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.e2e.autoscaler import torchrun_stand_in
from tests.e2e.autoscaler.training import MOST, TORCHRUN, train
from tests.e2e.up.machine import Machine


def test_pods_meet_at_the_address_torchrun_gets(tmp_path: Path) -> None:
    """All pods find each other at every size, and the work they share gets done."""
    machine = Machine(tmp_path, {"PATH": f"{_launcher(tmp_path)}:{os.environ['PATH']}"})
    try:
        trained = train(machine, TORCHRUN)
    finally:
        machine.swell("down")
    status = trained.record.looks[-1].jobs[TORCHRUN].status
    seen = [line.seen for line in trained.lines]

    assert status.phase.value == "Succeed", status.message
    assert [one.to for one in status.scale_records] == [MOST, 2, MOST]
    assert {line.size for line in trained.lines} >= {MOST}
    assert seen == sorted(seen)
    assert status.restarts == 0


def _launcher(folder: Path) -> Path:
    """A folder with a `torchrun` in it."""
    found = shutil.which("torchrun")
    if found:
        return Path(found).parent
    stand_in = folder / "bin" / "torchrun"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {torchrun_stand_in.__file__} "$@"\n')
    stand_in.chmod(0o755)
    return stand_in.parent
