"""Programs of a test cluster: started for good, found again and ended by the cgroup they are in.

A program enters its cgroup before it becomes itself, and what it starts is in there, too. Nothing
is remembered here: who asks gets what the kernel says.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.build import bin_dir
from testbed.site import Site

DAEMONS = "daemons"
TRACKING = Path("/sys/fs/cgroup/pids")
END_S_MAX = 30.0
POLL_S = 0.05
LOG_LINES_SHOWN = 15
# Enters the cgroup, then goes on as the program: who looks for that finds it there at once.
ENTER = 'echo 0 > "$1" && shift && exec "$@"'


class StillRunningError(Exception):
    """Processes that do not end although they were killed."""


def hierarchies() -> list[Path]:
    """Where cgroups are mounted; several places before version 2."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted({Path(mount[1]) for mount in mounts if mount[2] in {"cgroup", "cgroup2"}})


def tracking_cgroup(site: Site) -> Path:
    """The cgroup that every process of the cluster is in, or below."""
    return TRACKING / site.cgroup


def start(
    site: Site,
    name: str,
    command: Sequence[str],
    *,
    group: str = DAEMONS,
    mounts_of_pid: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start a program in a session of its own and return at once; its log is beside the others."""
    home = tracking_cgroup(site) / group / name
    home.mkdir(parents=True, exist_ok=True)
    others = ["nsenter", f"--mount=/proc/{mounts_of_pid}/ns/mnt"] if mounts_of_pid else []
    entered = ["sh", "-c", ENTER, "sh", str(home / "cgroup.procs")]
    with log_file(site, name).open("ab") as log:
        subprocess.run(
            [*entered, "setsid", "--fork", *others, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=site.folder,
            env=environment_of_daemons() | dict(environment or {}),
            check=True,
        )


def environment_of_daemons() -> dict[str, str]:
    """Nothing of the user's, and our own commands first."""
    return {"PATH": f"{bin_dir()}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def log_file(site: Site, name: str) -> Path:
    return site.folder / f"{name}.log"


def log_tail(site: Site, name: str) -> str:
    text = log_file(site, name).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-LOG_LINES_SHOWN:])


def pids(cgroup: Path, program: str | None = None) -> list[int]:
    """The processes in a cgroup and below, of one program if it is named."""
    found: set[int] = set()
    for file in cgroup.rglob("cgroup.procs"):
        with contextlib.suppress(FileNotFoundError, OSError):
            found.update(map(int, file.read_text().split()))
    return sorted(pid for pid in found if program in {None, _program(pid)})


def daemon_pid(site: Site, name: str, program: str, group: str = DAEMONS) -> int | None:
    """The process of a program started here, None when it does not run."""
    found = pids(tracking_cgroup(site) / group / name, program)
    return found[0] if found else None


def kill(cgroups: Sequence[Path], program: str | None = None) -> None:
    """End all that is in the cgroups, by force, and return when it is gone."""
    deadline = time.monotonic() + END_S_MAX
    while left := sorted({pid for cgroup in cgroups for pid in pids(cgroup, program)}):
        if time.monotonic() > deadline:
            names = ", ".join(f"{pid} ({_program(pid)})" for pid in left)
            raise StillRunningError(f"killed {END_S_MAX:.0f} s ago and still there: {names}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return "gone"
