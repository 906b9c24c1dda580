"""The demonstration that newcomers see first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

# Far more than it takes by itself (20 s): other tests run beside it.
WITHIN_S = 300.0


def test_demo_tells_its_story(tmp_path: Path) -> None:
    """It trains through growth, a kill, shrinking and a preemption, and leaves only logs."""
    ended = subprocess.run(
        [sys.executable, "-m", "swell.demo"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WITHIN_S,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "warning" not in ended.stderr
    for change in ("from 2 to 4", "from 4 to 3", "from 3 to 4", "from 4 to 2"):
        assert re.search(rf"at .* s  {change} members: a pause of \d", ended.stdout), ended.stdout
    found = re.search(r"after step (\d+) comes step (\d+): no step is lost", ended.stdout)
    assert found is not None, ended.stdout
    assert int(found[2]) == int(found[1]) + 1
    lengths = re.search(r"their length is (\S+) there, and (\S+) here", ended.stdout)
    assert lengths is not None
    assert abs(float(lengths[1]) - float(lengths[2])) < 1e-6
    assert max(len(line) for line in chart_of(ended.stdout)) <= 80
    assert "\x1b[" not in ended.stdout
    logs = re.search(r"^Logs: (.*)$", ended.stdout, re.MULTILINE)
    assert logs is not None
    assert (Path(logs[1]) / "trainer-3.1" / "aitj-trainer.log").read_text()


def chart_of(output: str) -> list[str]:
    drawn = output.split("The loss, as member 0 has seen it:\n")[1]
    return drawn.split("\nLogs: ")[0].splitlines()
