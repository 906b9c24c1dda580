"""The state folder of an embedded cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swell.cluster.home import (
    READY_LOCK,
    AlreadyRunningError,
    LockHolder,
    hold_lock,
    is_running,
    lock_holder,
)

HOLD = """
import sys, pathlib, time
from swell.cluster.home import hold_lock
with hold_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_held_refuses_a_second_process(tmp_path: Path) -> None:
    """One process serves a folder at a time."""
    with hold_lock(tmp_path):
        with pytest.raises(AlreadyRunningError), hold_lock(tmp_path):
            pytest.fail("two hold the same folder")
        assert is_running(tmp_path)

    assert not is_running(tmp_path)


def test_held_ends_with_a_killed_process(tmp_path: Path) -> None:
    """However the server ends, the folder is free again."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert is_running(tmp_path)
        child.send_signal(signal.SIGKILL)
    assert not is_running(tmp_path)


def test_is_running_makes_no_folder(tmp_path: Path) -> None:
    """Asking leaves no trace."""
    assert not is_running(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_lock_holder_is_the_locking_process(tmp_path: Path) -> None:
    """The holder has the pid and the role of the process; locks of one folder are distinct."""
    assert lock_holder(tmp_path) is None
    with hold_lock(tmp_path, what="swell up"):
        assert lock_holder(tmp_path) == LockHolder(os.getpid(), "swell up")
        assert lock_holder(tmp_path, READY_LOCK) is None

    assert lock_holder(tmp_path) is None
