"""The life of a test cluster: what it can do, and that nothing of it is ever left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.build import bin_dir, cni_dir
from testbed.cluster import READY_S_MAX
from testbed.site import CLAIMS
from tests.testbed.cluster import ROOT, RealCluster
from tests.testbed.kubectl import Kubectl

OURS = re.compile(r"swell(?:-testbed-)?(\d+)")
NODES_START = "nodes, controllers and DNS are starting"


def command(folder: Path, verb: str) -> list[str]:
    return [sys.executable, "-m", "testbed.cluster", "--folder", str(folder), verb]


def run(folder: Path, verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, verb),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_S_MAX,
    )


def traces(folder: Path) -> set[str]:
    """All that a cluster in the folder has on the machine, or that belongs to no cluster at all."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    places = [CLAIMS, Path("/sys/class/net"), *Path("/sys/fs/cgroup").iterdir()]
    found = {entry for place in places for entry in place.glob("*") if is_trace(entry, folder)}
    found |= {file for file in Path("/proc").glob("[0-9]*/cwd") if is_in(file, folder)}
    found |= {Path(line.split()[1]) for line in mounts if str(folder) in line}
    return {str(path) for path in (*found, folder) if path.is_symlink() or path.exists()}


def is_trace(entry: Path, folder: Path) -> bool:
    """Whether a name is a cluster's, and that cluster is not another folder's."""
    number = OURS.fullmatch(entry.name)
    claim = CLAIMS / f"swell-testbed-{number[1]}" if number else None
    return claim is not None and (not claim.is_symlink() or claim.readlink() == folder)


def is_in(link: Path, folder: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:
        return False


def start_until(folder: Path, line: str) -> subprocess.Popen[str]:
    """A start that has come as far as a line on its stderr."""
    starting = subprocess.Popen(command(folder, "up"), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert starting.stderr is not None
    for said in starting.stderr:
        if line in said:
            return starting
    raise AssertionError(f"the start never said {line!r}")


@pytest.fixture
def folder(tmp_path: Path, real_cluster: RealCluster) -> Path:
    """Where a second cluster goes, beside the one of the session: the two must get along."""
    return tmp_path / "cluster"


def test_cluster_taken_down_leaves_nothing(folder: Path) -> None:
    """`up` prints the path of a kubeconfig that works, and after `down` no trace is left."""
    started = run(folder, "up")
    assert started.stdout == f"{folder / 'kubeconfig'}\n", started.stderr
    kubectl = Kubectl(folder / "kubeconfig", folder)
    nodes = kubectl.ok("get", "nodes", "--no-headers").splitlines()
    assert [line.split()[:2] for line in nodes] == [["node-1", "Ready"], ["node-2", "Ready"]]
    again = run(folder, "up")
    assert (again.returncode, again.stdout) == (1, "")
    assert "take it away with `make cluster-down`" in again.stderr

    assert run(folder, "down").returncode == 0
    assert not traces(folder)
    assert run(folder, "down").returncode == 0


def test_interrupted_start_leaves_nothing(folder: Path) -> None:
    """A start that is asked to end takes away what it has begun before it does."""
    with start_until(folder, NODES_START) as starting:
        starting.send_signal(signal.SIGTERM)
        starting.communicate(timeout=READY_S_MAX)

    assert starting.returncode == 130
    assert not traces(folder)


def test_killed_start_is_taken_down(folder: Path) -> None:
    """What a killed start had begun is found and removed by `down`."""
    with start_until(folder, NODES_START) as starting:
        starting.kill()
    assert len(traces(folder)) > 10

    assert run(folder, "down").returncode == 0
    assert not traces(folder)


def test_failed_start_says_why_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that ends at once ends the start with its own last words."""
    broken = tmp_path / "bed" / bin_dir().parent.name
    copy_with(broken, "kube-apiserver", "#!/bin/sh\necho out of order\nexit 3\n")
    monkeypatch.setenv("SWELL_TESTBED", str(tmp_path / "bed"))

    failed = run(folder, "up")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "kube-apiserver has ended" in failed.stderr
    assert "out of order" in failed.stderr
    assert not traces(folder)


def copy_with(target: Path, name: str, script: str) -> None:
    """The binaries again, by links, with one of them replaced."""
    for source in (bin_dir(), cni_dir()):
        (target / source.name).mkdir(parents=True)
        for file in source.iterdir():
            (target / source.name / file.name).symlink_to(file)
    replaced = target / "bin" / name
    replaced.unlink()
    replaced.write_text(script, encoding="utf-8")
    replaced.chmod(0o755)


def test_start_needs_root(tmp_path: Path) -> None:
    """Whoever is not root is told so in one line."""
    tmp_path.chmod(0o755)
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", *command(tmp_path / "cluster", "up")],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "nodes need root" in done.stderr
