"""Ends what is left of a run whose supervisor is gone, and finds such processes of a state folder.

They are the members of its cgroups. Without cgroups they are known by a variable that every
process of a run inherits, and by their process group.
"""

from __future__ import annotations

import marshal
import os
import signal
from pathlib import Path

from swell.node import supervisor
from swell.node.process.setup.resources import Cgroup

# The variable in the environment of a container without cgroups. Its value is the run's folder.
MARK = "SWELL_RUN"


def run_cgroup(folder: Path) -> Cgroup:
    """Returns the cgroups of a run by its spec; none when the spec is gone."""
    try:
        raw = (folder / supervisor.SPEC_FILE).read_bytes()
        spec = marshal.loads(raw)  # noqa: S302 (written by an agent, for its owner alone)
    except (OSError, ValueError, EOFError, TypeError):
        return Cgroup()
    return Cgroup(tuple(Path(entry).parent for entry in spec.get("cgroups", ())))


def kill_run(folder: Path) -> None:
    """Kill every process of a run that has no supervisor any more."""
    run_cgroup(folder).kill()
    started = _fields(folder / supervisor.STARTED_FILE)
    if len(started) == 3 and started[1] and supervisor.start_mark(int(started[0])) == started[1]:
        _kill_group(int(started[0]))
    supervisor.send_all(marked_processes(str(folder)), signal.SIGKILL)


def marked_processes(place: str) -> list[int]:
    """Returns the processes that carry the mark of a run's folder, or of one below this folder."""
    mark = f"{MARK}={place}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir() if supervisor.LINUX else ():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(text == mark or text.startswith(mark + b"/") for text in variables):
            found.append(int(entry.name))
    return found


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it has ended by itself


def _fields(path: Path) -> list[str]:
    try:
        return path.read_text().split(" ")
    except OSError:
        return []
