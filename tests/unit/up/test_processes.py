"""Processes that a killed cluster has left are ended; others that have their pids are not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.api.meta import Uid
from swell.node import supervisor
from swell.up.processes import end_orphans, find_orphans, kill_pod

UID = Uid("u")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of one run of a container."""
    folder = tmp_path / "pods" / UID / "containers" / "main" / "0"
    folder.mkdir(parents=True)
    return folder


def note(run: Path, pid: int, mark: str) -> None:
    """Have the folder tell of a supervisor and a process with this pid."""
    (run / supervisor.IDENTITY_FILE).write_text(f"{pid} {mark}")
    (run / supervisor.STARTED_FILE).write_text(f"{pid} {mark} 1.0")


@pytest.mark.parametrize("mark", ["00000000.1", ""])
def test_reused_pid_is_never_killed(
    tmp_path: Path, run: Path, stranger: subprocess.Popen[bytes], mark: str
) -> None:
    """A pid without the start that was noted belongs to somebody else by now."""
    note(run, stranger.pid, mark)

    assert find_orphans(tmp_path) == []
    assert end_orphans(tmp_path, 0.1) == 0
    assert kill_pod(tmp_path, UID) == 0
    assert stranger.poll() is None


def test_process_that_was_noted_is_ended(
    tmp_path: Path, run: Path, stranger: subprocess.Popen[bytes]
) -> None:
    """The same pid and the same start: that is the one."""
    note(run, stranger.pid, supervisor.start_mark(stranger.pid))

    assert end_orphans(tmp_path, 5.0) == 1
    assert stranger.wait(5) != 0
