"""The demonstration that newcomers see first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

WITHIN_S = 60.0


def test_demo_tells_its_story(tmp_path: Path) -> None:
    """It takes less than a minute, shows growth, a fault and shrinking, and leaves only logs."""
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "swell.demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=2 * WITHIN_S,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert time.monotonic() - started < WITHIN_S
    assert "trainer from 2 to 4, by the user" in ended.stdout
    assert "exit code 137" in ended.stdout
    assert "trainer from 4 to 1, by the user" in ended.stdout
    logs = re.search(r"^Logs: (.*)$", ended.stdout, re.MULTILINE)
    assert logs is not None
    assert (Path(logs[1]) / "trainer-3.1" / "aitj-trainer.log").read_text()
