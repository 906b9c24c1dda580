"""A disk that fills up under a cluster: it is told, costs nothing, and all goes on afterwards."""

from __future__ import annotations

import os
import subprocess

from tests.e2e.up.machine import SWELL, WITHIN_S, Machine

STORY = """
swell() { %s "$@"; }
fill() { dd if=/dev/zero of="$SWELL_HOME/filling" bs=4k 2>/dev/null; }
set -u
mkdir "$SWELL_HOME" && mount -t tmpfs -o size=6m,mode=700 tmpfs "$SWELL_HOME"
swell up --detach --cpu 4 --memory 4Gi
swell run --name before -- echo hi
swell run --name other -- echo hi
swell run --detach --name during -- sh -c 'echo begun >> begun; until [ -e go ]; do sleep 0.1; done'
until [ -e begun ]; do sleep 0.1; done
fill
swell run --name refused -- true; echo "refused: $?"
swell delete aitj before; echo "deleted: $?"
kill -9 $(cut -d' ' -f1 "$SWELL_HOME/lock"); sleep 0.5; fill
swell up --detach --cpu 4 --memory 4Gi; echo "started: $?"
swell delete aitj other; echo "deleted: $?"
touch go; sleep 1.5
rm "$SWELL_HOME/filling"
swell up --detach --cpu 4 --memory 4Gi
swell logs -f during
swell run --name after -- echo there is room
swell get
swell down
"""


def test_full_disk_costs_nothing_that_was_acknowledged(machine: Machine) -> None:
    """Not even the end of a process that nobody could write down while it happened."""
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    ended = subprocess.run(
        [*unshare, "bash", "-c", STORY % " ".join(SWELL)],
        env=machine.environment,
        cwd=machine.folder,
        capture_output=True,
        text=True,
        timeout=3 * WITHIN_S,
        check=False,
    )
    phases = dict(line.split()[:2] for line in ended.stdout.splitlines() if " default " in line)

    assert ended.returncode == 0, ended.stderr
    assert "refused: 1" in ended.stdout
    assert "the cluster could not write it down: database or disk is full" in ended.stderr
    assert "make room on its disk" in ended.stderr
    assert ended.stdout.count("deleted: 0") == 2
    assert "started: 0" in ended.stdout
    assert phases == {"during": "Succeed", "after": "Succeed"}
    assert (machine.folder / "begun").read_text() == "begun\n"
    assert "Traceback" not in ended.stderr
