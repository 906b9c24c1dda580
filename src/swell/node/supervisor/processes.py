"""The processes of this machine, and everything that one of them has started.

On Linux a supervisor is a subreaper: whatever a container starts stays below it in the tree, in
whichever session. Where there are cgroups they say the same, also of processes whose supervisor is
gone. Elsewhere the groups of all descendants that were ever seen are remembered.
"""

from __future__ import annotations

import os
import signal
import time

from .kernel import LINUX

PROC = "/proc"
# Fields of /proc/PID/stat behind the name, counted from 0; see proc(5).
_STATE, _PARENT, _GROUP, _THREADS, _RSS = 0, 1, 2, 17, 21
_ENDED = (b"Z", b"X")
# Between two rounds of killing.
PAUSE_S, PAUSE_S_MAX = 0.001, 0.1


class ProcessRow:
    """One process. A plain class: dataclasses would be loaded for it alone."""

    __slots__ = ("group", "memory_bytes", "n_threads", "parent")

    def __init__(self, parent: int, group: int, n_threads: int, memory_bytes: int) -> None:
        self.parent, self.group = parent, group
        self.n_threads, self.memory_bytes = n_threads, memory_bytes


def process_table() -> dict[int, ProcessRow]:
    """Returns every process that has not ended, by pid."""
    return _proc_table() if LINUX else _ps_table()


def children_by_parent(table: dict[int, ProcessRow]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    return children


def descendants(children: dict[int, list[int]], root: int) -> list[int]:
    """Returns everything that a process has started, and all that was started by those."""
    found: list[int] = []
    waiting = [*children.get(root, ())]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


class Descendants:
    """All processes that this process has started, and members of the cgroups it made for them.

    `cgroups` are the files that list the members.
    """

    def __init__(self, cgroups: tuple[str, ...] = ()) -> None:
        self._cgroups = cgroups
        self._groups: set[int] = set()

    def note(self) -> None:
        """Remember the groups of descendants, where orphans do not become our children."""
        if not LINUX:
            table = process_table()
            own = os.getpgid(0)
            found = descendants(children_by_parent(table), os.getpid())
            self._groups |= {table[pid].group for pid in found} - {own}

    def kill_all(self) -> None:
        """Kill until none is left. A process in an uninterruptible wait is waited for."""
        pause_s = PAUSE_S
        while True:
            for entry in self._cgroups:
                kill_members(entry)
            pids = self._pids()
            if len(pids) > 1:
                # Stopped first, so that a process that forks all the time cannot outrun the kills.
                send_all(pids, signal.SIGSTOP)
                pids = self._pids()
            send_all(pids, signal.SIGKILL)
            has_children = _reap()
            if not has_children and not pids and not any(map(members, self._cgroups)):
                return
            time.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)

    def _pids(self) -> list[int]:
        if LINUX and (found := _own_tree()) is not None:
            return found
        table = process_table()
        found = descendants(children_by_parent(table), os.getpid())
        others = [pid for pid, row in table.items() if row.group in self._groups]
        return list(dict.fromkeys(found + others))


def members(entry: str) -> list[int]:
    """Returns the members of a cgroup, by the file that lists them; none when it is gone."""
    try:
        with open(entry) as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def kill_members(entry: str) -> None:
    """Kill the members of a cgroup: at once where the kernel does it, else one by one."""
    try:
        # Without O_CREAT: only the kernel makes this file.
        descriptor = os.open(f"{os.path.dirname(entry)}/cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        send_all(members(entry), signal.SIGKILL)
        return
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)


def send_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def n_threads_of_user() -> int:
    """Returns how many threads the user of this process has, as the kernel's limit counts them."""
    uid, total = os.getuid(), 0
    for pid, row in process_table().items():
        try:
            total += row.n_threads if os.stat(f"{PROC}/{pid}").st_uid == uid else 0
        except OSError:
            continue
    return total


def _reap() -> bool:
    """Collect children that have ended; whether there are others."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def _own_tree() -> list[int] | None:
    """Returns the descendants of this process by the kernel's lists of children; None without.

    It reads what belongs to the tree alone, and not every process of the machine.
    """
    waiting, found = [os.getpid()], []
    while waiting:
        pid = waiting.pop()
        try:
            for thread in os.listdir(f"{PROC}/{pid}/task"):
                with open(f"{PROC}/{pid}/task/{thread}/children") as file:
                    waiting += [int(child) for child in file.read().split()]
        except OSError:
            if pid == os.getpid():
                return None  # a kernel that was built without these lists
            continue
        found.append(pid)
    return found[1:]


def _proc_table() -> dict[int, ProcessRow]:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    table: dict[int, ProcessRow] = {}
    for name in os.listdir(PROC):
        if not name.isdigit():
            continue
        try:
            with open(f"{PROC}/{name}/stat", "rb") as file:
                # The name before it is in brackets and may contain brackets and spaces itself.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields and fields[_STATE] not in _ENDED:
            parent, group, threads = (int(fields[n]) for n in (_PARENT, _GROUP, _THREADS))
            memory_bytes = int(fields[_RSS]) * page_bytes
            table[int(name)] = ProcessRow(parent, group, threads, memory_bytes)
    return table


def _ps_table() -> dict[int, ProcessRow]:
    """Returns the table as ps(1) prints it, which every Unix has."""
    import subprocess  # only where there is no /proc: it takes long to load

    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,rss=,stat="]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as listing:
        listed, _ = listing.communicate()
    table: dict[int, ProcessRow] = {}
    for line in listed.decode(errors="replace").splitlines():
        pid, parent, group, kilobytes, state = line.split(None, 4)
        # It lists itself as well, as a child of ours that is about to end.
        if not state.startswith("Z") and int(pid) != listing.pid:
            table[int(pid)] = ProcessRow(int(parent), int(group), 1, int(kilobytes) << 10)
    return table
