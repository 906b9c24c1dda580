"""Takes a test cluster away: processes, network, cgroups, files, and at last its claim.

Works from the claim alone, so it does not matter how far the start had come or what became of it
since. It ends no process outside the cluster's own cgroups and removes no file below a mount.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import time
from pathlib import Path

from testbed import daemons
from testbed.build import bin_dir
from testbed.site import Site

REMOVE_S_MAX = 10.0
POLL_S = 0.05


class TeardownError(Exception):
    """Something of a cluster cannot be removed; the claim stays, so that down can be repeated."""


def take_down(site: Site) -> None:
    """Remove all there is of a cluster. Doing it twice, or to half a cluster, is no failure."""
    cgroups = [place / site.cgroup for place in daemons.hierarchies()]
    daemons.kill(cgroups)
    if Path("/sys/class/net", site.bridge).exists():
        subprocess.run([bin_dir() / "busybox", "ip", "link", "del", site.bridge], check=True)
    for cgroup in cgroups:
        _remove_cgroup(cgroup)
    _remove_folder(site.folder)
    site.claim.unlink(missing_ok=True)


def _remove_cgroup(top: Path) -> None:
    """Remove from the leaves up; the kernel needs a moment after the last process has ended."""
    deadline = time.monotonic() + REMOVE_S_MAX
    for folder, _, _ in os.walk(top, topdown=False):
        while True:
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise TeardownError(f"cannot remove the cgroup {folder}: {error}") from error
                time.sleep(POLL_S)
            else:
                break


def _remove_folder(folder: Path) -> None:
    inside = [mount for mount in _mount_points() if folder in mount.parents or folder == mount]
    if inside:
        raise TeardownError(
            f"not removing {folder}: mounted there are {', '.join(map(str, inside))}"
        )
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _mount_points() -> list[Path]:
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [Path(line.split()[1]) for line in lines]
