"""Jobs that are over and deleted are still in the history, and so are their logs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.e2e.up.machine import Machine

WAIT_S = 60.0


@pytest.mark.long
def test_a_deleted_job_is_remembered(machine: Machine, tmp_path: Path) -> None:
    """Its end, its time, its exit code and its output; and the export is a trace."""
    machine.swell("up", "--detach", "--keep-logs", "2d")
    machine.swell("run", "--name", "good", "--", "python", "-c", "print('all well')")
    failing = ("run", "--name", "bad", "--", "python", "-c", "raise SystemExit(3)")
    machine.swell(*failing, expect=1)
    machine.swell("delete", "good", "bad")

    lives = {one["name"]: one for one in json.loads(machine.swell("history", "-o", "json").stdout)}
    assert lives["good"]["phase"] == "Succeed"
    assert lives["bad"]["phase"] == "Failed"
    assert lives["bad"]["exits"] == {"exit 3 Error": 1}
    for life in lives.values():
        assert sum(life["ledger"].values()) == life["wallSeconds"]
    assert _eventually(machine, "all well", "logs", "--ended", "good")
    trace = tmp_path / "trace.csv"
    trace.write_text(machine.swell("history", "-o", "csv").stdout)
    machine.swell("replay", str(trace), "--nodes", "1x4", "-o", "json")


def _eventually(machine: Machine, text: str, *command: str) -> bool:
    """Whether a command prints a text: logs are put away a moment after the job is gone."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if text in machine.swell(*command, expect=None).stdout:
            return True
        time.sleep(0.2)
    return False
