"""Limits what containers may use, knows the members of their cgroups, and hands out GPUs.

Every run has cgroups where the machine allows it, in version 2 or in version 1 with its hierarchy
for each controller. They limit memory with swap, CPU and the number of processes, share the CPU
between containers whatever they start, and know every process of a run.

Without them the memory and the number of the processes below a container's supervisor are checked
every second, which a process can outrun, and which counts shared pages once for each process. The
number of processes is then also limited by the kernel's limit for a user; see `supervising`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.meta import Uid
from swell.node import supervisor

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
PARENT = "swell"
MEMBERS = "cgroup.procs"
# The hierarchies of version 1 that limit something, and that of version 2 beside them, which
# limits nothing but can kill all members at once.
CONTROLLERS = ("memory", "cpu", "pids")
BESIDE = "unified"
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
PERIOD_US = 100_000  # the kernel's default of cpu.cfs_period_us
WATCH_S = 1.0
# A container may have so many processes and threads unless a flag says otherwise: the default of
# a large distribution of Kubernetes. Training with many data loaders takes some hundreds.
PROCESSES_MAX = 4096
# Version 1 writes "no limit" as a number of about 2**63.
_NO_LIMIT = 1 << 62
_LIMIT_FILES = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max",)}


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The limits of a container that are enforced; None for no limit."""

    memory_bytes: int | None = None
    cpu_milli: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroups of one run: one for each hierarchy of version 1; none where not allowed."""

    folders: tuple[Path, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Returns the files to which a process writes its pid to become a member."""
        return tuple(str(folder / MEMBERS) for folder in self.folders)

    @property
    def limits_memory(self) -> bool:
        return self._limits("memory")

    @property
    def limits_processes(self) -> bool:
        return self._limits("pids")

    def has_oom_kill(self) -> bool:
        """Whether the kernel has killed a member for want of memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                counts = _counts(folder / name)
                if counts.get("oom_kill", 0) > 0:
                    return True
        return False

    def kill(self) -> None:
        for entry in self.entries:
            supervisor.kill_members(entry)

    def remove(self) -> bool:
        """Remove the cgroups; False when one has members or sub-groups and is left."""
        is_removed = True
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                is_removed = False
        return is_removed

    def _limits(self, controller: str) -> bool:
        names = _LIMIT_FILES[controller]
        return any(_is_limit(folder / name) for folder in self.folders for name in names)


class CgroupRoot:
    """Makes cgroups, as far as this process is allowed to."""

    def __init__(self, root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> None:
        self._root = root
        self.is_unified = (root / "cgroup.controllers").exists()
        self._base = _writable_base(root, own) if self.is_unified else None

    def make(self, name: str, limits: ResourceLimits) -> Cgroup:
        """Returns cgroups for a run with these limits; fewer or none where not allowed."""
        if not sys.platform.startswith("linux"):
            return Cgroup()
        if self.is_unified:
            self._delegate()
        made: list[Path] = []
        for parent, settings in self._wanted(limits):
            folder = parent / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError:
                continue
            made.append(folder)
            for file, text in settings.items():
                _try_write(folder / file, text)
        return Cgroup(tuple(made))

    def named(self, prefix: str) -> dict[str, Cgroup]:
        """Returns the cgroups whose names begin so, by name."""
        found: dict[str, list[Path]] = {}
        for parent in self._parents():
            for folder in sorted(parent.glob(f"{prefix}*")) if parent.is_dir() else ():
                found.setdefault(folder.name, []).append(folder)
        return {name: Cgroup(tuple(folders)) for name, folders in found.items()}

    def _parents(self) -> Iterator[Path]:
        if self.is_unified:
            if self._base is not None:
                yield self._base / PARENT
            return
        for controller in (*CONTROLLERS, BESIDE):
            yield self._root / controller / PARENT

    def _wanted(self, limits: ResourceLimits) -> Iterator[tuple[Path, Mapping[str, str]]]:
        """Returns the parents of the cgroups to make, each with the settings of its cgroup.

        A setting of a controller that is not there is left out by the kernel's refusal.
        """
        if self.is_unified:
            if self._base is not None:
                yield self._base / PARENT, _unified_settings(limits)
            return
        for controller, settings in _separate_settings(limits).items():
            if (self._root / controller).is_dir():
                yield self._root / controller / PARENT, settings

    def _delegate(self) -> None:
        """Have the controllers limit our cgroups; each where it is there and allowed."""
        if self._base is None:
            return
        parent = self._base / PARENT
        try:
            parent.mkdir(exist_ok=True)
        except OSError:
            return
        for folder in (self._base, parent):
            for controller in CONTROLLERS:
                _try_write(folder / "cgroup.subtree_control", f"+{controller}")


def home_prefix(home: Path) -> str:
    """Returns the beginning of the names of a state folder's cgroups: several share a machine."""
    return hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12] + "-"


def run_name(home: Path, uid: Uid, container: str, attempt: int) -> str:
    return f"{home_prefix(home)}{uid}-{container}-{attempt}"


def _unified_settings(limits: ResourceLimits) -> dict[str, str]:
    settings: dict[str, str] = {}
    if limits.memory_bytes is not None:
        settings |= {
            "memory.max": str(limits.memory_bytes),
            "memory.swap.max": "0",  # as a kubelet does: swap is not part of a memory limit
            "memory.oom.group": "1",  # half a container is of no use
        }
    if limits.cpu_milli is not None:
        settings |= {"cpu.max": f"{_quota_us(limits.cpu_milli)} {PERIOD_US}"}
    if limits.processes is not None:
        settings |= {"pids.max": str(limits.processes)}
    return settings


def _separate_settings(limits: ResourceLimits) -> dict[str, dict[str, str]]:
    """Returns the settings by hierarchy.

    The one for CPU is there without a limit, too: it gives every container a fair part, however
    many processes it has.
    """
    settings: dict[str, dict[str, str]] = {"cpu": {}, BESIDE: {}}
    if limits.memory_bytes is not None:
        amount = str(limits.memory_bytes)
        # Memory with swap cannot be less than memory, so it is set after it.
        settings["memory"] = {
            "memory.limit_in_bytes": amount,
            "memory.memsw.limit_in_bytes": amount,
        }
    if limits.cpu_milli is not None:
        settings["cpu"] = {
            "cpu.cfs_period_us": str(PERIOD_US),
            "cpu.cfs_quota_us": str(_quota_us(limits.cpu_milli)),
        }
    if limits.processes is not None:
        settings["pids"] = {"pids.max": str(limits.processes)}
    return settings


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """The threads and the memory of everything below a supervisor."""

    n_threads: int
    memory_bytes: int


def usage_below(roots: Iterable[int]) -> dict[int, TreeUsage]:
    """Returns the usage of all descendants of each process, in whichever session they are."""
    table = supervisor.process_table()
    children = supervisor.children_by_parent(table)
    found: dict[int, TreeUsage] = {}
    for root in roots:
        rows = [table[pid] for pid in supervisor.descendants(children, root)]
        found[root] = TreeUsage(
            sum(row.n_threads for row in rows), sum(row.memory_bytes for row in rows)
        )
    return found


def _writable_base(root: Path, own: Path) -> Path | None:
    """Returns the topmost cgroup above this process in which it may make others.

    For root that is the root; for a user it is the part that was delegated, if any. A process can
    only be moved within it.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = root
    for part in ("", *path.strip("/").split("/")):
        folder = folder / part
        if os.access(folder, os.W_OK) and os.access(folder / MEMBERS, os.W_OK):
            return folder
    return None


def _quota_us(cpu_milli: int) -> int:
    return max(1000, cpu_milli * PERIOD_US // 1000)


def _try_write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return


def _is_limit(path: Path) -> bool:
    try:
        text = path.read_text().strip()
    except OSError:
        return False
    return text.isdigit() and int(text) < _NO_LIMIT


def _counts(path: Path) -> dict[str, int]:
    try:
        pairs = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


@dataclass(slots=True)
class GpuBoard:
    """The GPUs of one node, by index. A GPU belongs to at most one container."""

    indexes: Sequence[int]
    _given: dict[int, tuple[Uid, str]] = field(default_factory=dict)

    def give(self, uid: Uid, container: str, n_wanted: int) -> tuple[int, ...] | None:
        """Returns GPUs for a container, first those it has already; None when too few are free."""
        holder = (uid, container)
        held = [index for index in self.indexes if self._given.get(index) == holder]
        free = [index for index in self.indexes if index not in self._given]
        if len(held) + len(free) < n_wanted:
            return None
        chosen = (*held, *free)[:n_wanted]
        for index in chosen:
            self._given[index] = holder
        return chosen

    def restore(self, uid: Uid, container: str, indexes: Sequence[int]) -> None:
        """Note the GPUs that a container got from an earlier agent."""
        self._given |= dict.fromkeys(indexes, (uid, container))

    def take_back(self, uid: Uid, container: str | None = None) -> None:
        """Free the GPUs of a pod, or of one of its containers."""
        self._given = {
            index: holder
            for index, holder in self._given.items()
            if holder[0] != uid or container not in {None, holder[1]}
        }
