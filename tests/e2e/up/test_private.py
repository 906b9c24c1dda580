"""A whole life of a cluster leaves nothing that another user could read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from swell.cluster.embedded.durable import Database
from swell.cluster.private import CONTAINERS_OWN

# Finds, as another user, what can be read below a folder; for that user its parents are open.
READ_AS_OTHER = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = []
home = sys.argv[1]
for name in sys.argv[2:]:
    try:
        found.append(open(os.path.join(home, name), "rb").read(1) and name)
    except OSError:
        pass
try:
    found += os.listdir(home)
except OSError:
    pass
print(found)
"""
OBJECTS = """
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {word: hidden}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {word: open}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulerName: swell
  restartPolicy: Never
  containers:
  - name: main
    image: local
    command: [sh, -c, "cat /s/word; touch own; mkdir more; touch more/own /e/own; sleep 1000"]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
    volumeMounts:
    - {name: s, mountPath: /s}
    - {name: m, mountPath: /m}
    - {name: e, mountPath: /e}
  volumes:
  - {name: s, secret: {secretName: s}}
  - {name: m, configMap: {name: m}}
  - {name: e, emptyDir: {}}
"""


def swell(home: Path, *arguments: str, given: str = "") -> str:
    """Run a command with a umask that takes nothing away."""
    environ = {**os.environ, "SWELL_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "swell.cli.main", *arguments],
        input=given.encode(),
        env=environ,
        umask=0,
        capture_output=True,
        check=True,
        timeout=120,
    )
    return done.stdout.decode()


def loose(home: Path) -> dict[str, str]:
    """Everything that has rights for others, but for what volumes hold."""
    found: dict[str, str] = {}
    own = [path for pattern in CONTAINERS_OWN[:1] for path in home.glob(pattern)]
    for path in (home, *home.rglob("*")):
        if path.is_symlink() or any(path == one or one in path.parents for one in own):
            continue
        if path.stat().st_mode & 0o077:
            found[str(path.relative_to(home))] = stat.filemode(path.stat().st_mode)
    return found


def test_whole_home_is_private_after_a_whole_story(tmp_path: Path) -> None:
    """Store, logs, credentials, supervisors' files: begun in an open folder, with a umask of 0."""
    home = tmp_path / "home"
    before = os.umask(0)
    home.mkdir()
    home.chmod(0o777)
    Database(home / "store.db").close()
    (home / "store.db").chmod(0o666)
    (home / "up.log").touch()
    os.umask(before)
    swell(home, "up", "--detach")
    try:
        swell(home, "apply", "-f", "-", given=OBJECTS)
        command = ["sh", "-c", "echo hello; touch own"]
        shown = swell(home, "run", "--name", "fit", "--", *command)
        swell(home, "get", "pods", "p")
        deadline = 40
        while not list(home.glob("pods/*/containers/main/0/work/more/own")):
            deadline -= 1
            assert deadline
            swell(home, "get", "pods")
        assert "hello" in shown
        assert loose(home) == {}
        if os.geteuid() == 0:
            assert read_as_other(home) == "[]\n"
    finally:
        swell(home, "down")

    assert loose(home) == {}


def read_as_other(home: Path) -> str:
    """What another user can read, when the folders above the home are open."""
    for parent in home.parents:
        if parent.is_relative_to(Path("/tmp")) and parent != Path("/tmp"):
            parent.chmod(0o755)
    files = [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()]
    assert "store.db-wal" in files
    assert any("volumes/s" in name for name in files)
    done = subprocess.run(
        [sys.executable, "-c", READ_AS_OTHER, str(home), *files], capture_output=True, check=True
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    "command", [("up", "--detach"), ("up",), ("server",), ("node", "--embedded")]
)
def test_home_of_another_user_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    """By every command that would write there, with a sentence and no traceback."""
    if os.geteuid() != 0:
        return  # only root can make a folder of another user
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    done = subprocess.run(
        [sys.executable, "-m", "swell.cli.main", *command],
        env={**os.environ, "SWELL_HOME": str(home)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    said = done.stderr.decode()

    assert done.returncode == 1
    assert "Traceback" not in said
    if command[0] != "node":  # which first looks for the cluster that is to run there
        assert "belongs to uid 12345" in said
    assert list(home.iterdir()) == []
