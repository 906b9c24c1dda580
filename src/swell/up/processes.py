"""The processes of containers, found by what a state folder records of them.

Used when no node agent runs that would look after them, and to kill a pod on purpose.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Uid
from swell.node import supervisor
from swell.node.process.folders import Folders
from swell.node.process.orphans import marked_processes
from swell.node.process.setup.resources import CgroupRoot, home_prefix

# Between two looks at something that is waited for.
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class OrphanProcess:
    """A container's supervisor and the process it has started; a pid of 0 means there is none."""

    supervisor: int
    process: int


def find_orphans(home: Path) -> list[OrphanProcess]:
    """Return the containers of a state folder that still have a process."""
    found = (
        OrphanProcess(
            _live_pid(run / supervisor.IDENTITY_FILE), _live_pid(run / supervisor.STARTED_FILE)
        )
        for run in _run_folders(home)
    )
    return [one for one in found if one.supervisor or one.process]


def end_orphans(home: Path, grace_s: float) -> int:
    """End every process of a state folder, by force after the grace. Returns how many there were.

    SIGTERM asks a supervisor to end its process, SIGUSR1 to kill it; SIGKILL ends both. Last come
    processes whose supervisor is gone, in whichever session they are.
    """
    _cancel_starts(home)
    found = find_orphans(home)
    _signal_all(found, signal.SIGTERM)
    if not wait_until(lambda: not find_orphans(home), grace_s):
        _signal_all(find_orphans(home), signal.SIGUSR1)
        if not wait_until(lambda: not find_orphans(home), grace_s):
            _signal_all(find_orphans(home), signal.SIGKILL)
    n_others = _kill_unsupervised(home)
    wait_until(lambda: not _kill_unsupervised(home), grace_s)
    return len(found) + n_others


def kill_pod(home: Path, uid: Uid) -> int:
    """Kill every process of a pod, as the kernel would. Returns how many containers that were."""
    n_killed = 0
    for _, _, run in Folders(home).runs(uid):
        pid = _live_pid(run / supervisor.STARTED_FILE)
        if not pid:
            continue
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        n_killed += 1
    return n_killed


def wait_until(holds: Callable[[], bool], within_s: float) -> bool:
    """Wait until something holds; False when it does not in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def _cancel_starts(home: Path) -> None:
    """Remove the orders of supervisors that have not begun: without one they start nothing."""
    for run in _run_folders(home):
        if not (run / supervisor.IDENTITY_FILE).exists():
            (run / supervisor.SPEC_FILE).unlink(missing_ok=True)


def _kill_unsupervised(home: Path) -> int:
    """Kill what is left of containers without a supervisor; returns how many processes there were.

    Cgroups are removed once they are empty.
    """
    marked = marked_processes(str(Folders(home).pods))
    supervisor.send_all(marked, signal.SIGKILL)
    members: set[int] = set()
    for cgroup in CgroupRoot().named(home_prefix(home)).values():
        members.update(*map(supervisor.members, cgroup.entries))
        cgroup.kill()
        cgroup.remove()
    return len(members | set(marked))


def _run_folders(home: Path) -> list[Path]:
    return sorted(Folders(home).pods.glob("*/containers/*/*"))


def _live_pid(record: Path) -> int:
    """Return the pid in a file of the supervisor's if it is still that process; otherwise 0.

    The file holds the pid and the time the process started: a pid alone may have been reused.
    """
    try:
        parts = record.read_text().split(" ")
    except OSError:
        return 0
    if len(parts) < 2 or supervisor.start_mark(int(parts[0])) != parts[1]:
        return 0
    return int(parts[0])


def _signal_all(found: list[OrphanProcess], number: signal.Signals) -> None:
    """Signal supervisors, which pass signals on; kill a process that has none any more."""
    for one in found:
        if one.supervisor:
            _send(os.kill, one.supervisor, number)
        if one.process and (not one.supervisor or number is signal.SIGKILL):
            _send(os.killpg, one.process, signal.SIGKILL)


def _send(send: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    try:
        send(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself
