"""Limits the memory and CPU of containers, and hands out GPUs.

Limits are enforced by cgroups where the machine allows it. Otherwise the resident memory of a
container's session is checked every second, which a process can outrun, and which counts shared
pages once for each process. CPU is limited by cgroups only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.meta import Uid

CGROUPS = Path("/sys/fs/cgroup")
PARENT = "swell"
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
PERIOD_US = 100_000  # the kernel's default of cpu.cfs_period_us
WATCH_S = 1.0
_SESSION_FIELD, _RSS_FIELD = 3, 21  # counted after the name, from 0; see proc(5)


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The limits of a container that are enforced; None for no limit."""

    memory_bytes: int | None = None
    cpu_milli: int | None = None


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroups of one run: one for each hierarchy of version 1; none where not allowed."""

    folders: tuple[Path, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Returns the files to which a process writes its pid to become a member."""
        return tuple(str(folder / "cgroup.procs") for folder in self.folders)

    @property
    def limits_memory(self) -> bool:
        return any((folder / name).exists() for folder in self.folders for name in _MEMORY)

    def has_oom_kill(self) -> bool:
        """Whether the kernel has killed a member for want of memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                counts = _counts(folder / name)
                if counts.get("oom_kill", 0) > 0:
                    return True
        return False

    def remove(self) -> None:
        for folder in self.folders:
            try:
                folder.rmdir()
            except OSError:
                continue


_MEMORY = ("memory.max", "memory.limit_in_bytes")


class CgroupRoot:
    """Makes cgroups, as far as this process is allowed to."""

    def __init__(self, root: Path = CGROUPS) -> None:
        self._root = root
        self.is_unified = (root / "cgroup.controllers").exists()

    def make(self, name: str, limits: ResourceLimits) -> Cgroup:
        """Returns cgroups for a run with these limits; fewer or none where not allowed."""
        if limits == ResourceLimits() or not sys.platform.startswith("linux"):
            return Cgroup()
        wanted = self._unified(limits) if self.is_unified else self._separate(limits)
        made: list[Path] = []
        for parent, settings in wanted:
            folder = parent / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for file, text in settings.items():
                    (folder / file).write_text(text)
            except OSError:
                if folder.is_dir():
                    folder.rmdir()
                continue
            made.append(folder)
        return Cgroup(tuple(made))

    def _unified(self, limits: ResourceLimits) -> Iterable[tuple[Path, Mapping[str, str]]]:
        settings: dict[str, str] = {}
        if limits.memory_bytes is not None:
            settings |= {"memory.max": str(limits.memory_bytes)}
        if limits.cpu_milli is not None:
            settings |= {"cpu.max": f"{_quota_us(limits.cpu_milli)} {PERIOD_US}"}
        parent = self._root / PARENT
        if os.access(self._root / "cgroup.subtree_control", os.W_OK):
            _delegate(self._root, parent)
        yield parent, settings

    def _separate(self, limits: ResourceLimits) -> Iterable[tuple[Path, Mapping[str, str]]]:
        if limits.memory_bytes is not None:
            parent = self._root / "memory" / PARENT
            yield parent, {"memory.limit_in_bytes": str(limits.memory_bytes)}
        if limits.cpu_milli is not None:
            quota = {
                "cpu.cfs_period_us": str(PERIOD_US),
                "cpu.cfs_quota_us": str(_quota_us(limits.cpu_milli)),
            }
            yield self._root / "cpu" / PARENT, quota


def resident_bytes(sessions: Iterable[int], proc: Path = Path("/proc")) -> dict[int, int]:
    """Returns the resident memory of each session, by its leader's pid, in one pass over /proc."""
    totals = dict.fromkeys(sessions, 0)
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    for entry in proc.iterdir() if proc.is_dir() else ():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        session = int(fields[_SESSION_FIELD])
        if session in totals:
            totals[session] += int(fields[_RSS_FIELD]) * page_bytes
    return totals


def _quota_us(cpu_milli: int) -> int:
    return max(1000, cpu_milli * PERIOD_US // 1000)


def _delegate(root: Path, parent: Path) -> None:
    try:
        parent.mkdir(exist_ok=True)
        for folder in (root, parent):
            (folder / "cgroup.subtree_control").write_text("+memory +cpu")
    except OSError:
        return


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

    def take_back(self, uid: Uid) -> None:
        """Free the GPUs of a pod."""
        self._given = {i: holder for i, holder in self._given.items() if holder[0] != uid}
