"""Somebody without rights, at a machine without a network: everything works all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.up import stranger
from tests.e2e.up.machine import SWELL, WITHIN_S, Machine

ROOT = Path(__file__).parents[3]
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def theirs() -> Iterator[Machine]:
    """A machine whose user is nobody special."""
    folder = Path(tempfile.mkdtemp(prefix="swell-stranger-"))
    if IS_ROOT:
        os.chown(folder, stranger.UID, stranger.GID)
    made = Machine(folder)
    yield made
    assert made.processes() == []
    shutil.rmtree(folder)


def typed(machine: Machine, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A script of theirs, in which `swell` is the command."""
    text = f'swell() {{ {" ".join(SWELL)} "$@"; }}\n{script}'
    become = [sys.executable, str(ROOT / "tests" / "e2e" / "up" / "stranger.py")]
    return subprocess.run(
        [*(become if IS_ROOT else []), "bash", "-c", text],
        env=machine.environment | environ,
        cwd=machine.folder,
        capture_output=True,
        text=True,
        timeout=3 * WITHIN_S,
        check=False,
    )


def test_stranger_runs_jobs(theirs: Machine) -> None:
    """A cluster, jobs with volumes, peers and limits, a kill -9, and a clean end."""
    script = f"""
    set -e
    swell up --detach --cpu 4 --memory 4Gi
    swell run --name who --cpu 100m --memory 64Mi -- sh -c 'echo I am $(id -u)'
    swell run {ROOT}/examples/ring.yaml
    swell run {ROOT}/examples/shell.yaml
    swell run --detach --name long -- sh -c 'echo begun >> long.txt; sleep 3'
    until [ -e long.txt ]; do sleep 0.1; done
    kill -9 $(cut -d' ' -f1 "$SWELL_HOME/lock")
    swell up --detach
    swell logs -f long
    swell get long
    swell down
    cat long.txt
    """
    ended = typed(theirs, script)

    assert ended.returncode == 0, ended.stderr
    assert f"[trainer-0] I am {stranger.UID if IS_ROOT else os.getuid()}" in ended.stdout
    assert "[node-0] the ring adds up to 6" in ended.stdout
    assert "[counter-1] even: 500 of 1000 words" in ended.stdout
    assert "long   Succeed" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "begun"
    assert "Traceback" not in ended.stderr


def test_folder_of_somebody_else(theirs: Machine) -> None:
    """What belongs to another is not touched, and every command says so and what to do."""
    folder = "/root/swell" if not IS_ROOT else str(theirs.folder.parent / "swell-of-root")
    if IS_ROOT:
        Path(folder).mkdir(mode=0o700, exist_ok=True)
    for command in ("up", "up --detach", "server", "get", "down", "run -- true"):
        ended = typed(theirs, f"swell {command}", SWELL_HOME=folder)

        assert ended.returncode == 1, command
        assert "Permission denied" in ended.stderr
        assert "set SWELL_HOME to a folder that is" in ended.stderr
        assert "Traceback" not in ended.stderr
    if IS_ROOT:
        assert list(Path(folder).iterdir()) == []
        Path(folder).rmdir()
