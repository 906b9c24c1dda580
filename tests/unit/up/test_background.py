"""A cluster in the background is ended with every process that it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swell.up import background

# Lets go of its lock when it is asked to end, and then does not end.
LINGERING = """
import signal, sys, time
from pathlib import Path
from swell.cluster.home import hold_lock
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
with hold_lock(Path(sys.argv[1])):
    print("ready", flush=True)
    while not asked:
        time.sleep(0.01)
while True:
    time.sleep(1)
"""


def test_process_that_lingers_without_its_lock_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine an interpreter may take longer to exit than anybody waits."""
    monkeypatch.setattr(background, "GRACE_S", 0.2)
    command = [sys.executable, "-c", LINGERING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"

            assert background.stop(tmp_path, lambda _running: None)
            assert child.wait(60) == -9
        finally:
            child.kill()
