"""A folder of checkpoints: a new name, written and synced, then renamed; never changed after that.

A crash at any point leaves the earlier checkpoints as they were, and perhaps a file with a name
that nobody reads, which the next save of the same program removes.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from swell.train.checkpoints.file import CheckpointHeader, blocks, read_header, read_state
from swell.train.errors import CheckpointError
from swell.train.state.tree import PackedState

NAME = re.compile(r"step-(?P<step>\d{12})(?:\.part-(?P<part>\d+)-of-(?P<n_parts>\d+))?\.swell")
UNFINISHED = ".unfinished"
# An unfinished file of this age belongs to a process that died: saves take less.
ABANDONED_S = 3600.0


class Disk(Protocol):
    """The operations on a file system that a save consists of, in their order."""

    def write(self, path: Path, blocks: Iterable[bytes | memoryview]) -> None:
        """Create a file, and have it on the disk before this returns."""
        ...

    def rename(self, old: Path, new: Path) -> None: ...

    def sync_folder(self, path: Path) -> None: ...

    def remove(self, path: Path) -> None: ...


class RealDisk:
    """The file system of this machine."""

    def write(self, path: Path, blocks: Iterable[bytes | memoryview]) -> None:
        with path.open("xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def sync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


class CheckpointFolder:
    """Checkpoints of one job. All members may share the folder; one of them writes a part."""

    def __init__(
        self,
        path: Path,
        *,
        keep: int = 2,
        disk: Disk | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.path, self._keep = path, keep
        self._disk = disk or RealDisk()
        self._warn = warn
        self._bad: set[Path] = set()  # found damaged when they were read

    def save(self, packed: PackedState, *, step: int, part: tuple[int, int] = (0, 1)) -> Path:
        """Write one complete checkpoint, or one part of it; then remove the oldest ones."""
        self.path.mkdir(parents=True, exist_ok=True)
        suffix = "" if part == (0, 1) else f".part-{part[0]}-of-{part[1]}"
        final = self.path / f"step-{step:012}{suffix}.swell"
        unfinished = self.path / f".{final.name}.{secrets.token_hex(4)}{UNFINISHED}"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._disk.write(unfinished, blocks(packed, step=step, time=now, part=part))
        self._disk.rename(unfinished, final)
        self._disk.sync_folder(self.path)
        self._bad.discard(final)
        self._prune(step)
        return final

    def newest(self) -> tuple[int, list[Path]] | None:
        """Step and files of the newest checkpoint that looks complete; bad ones are named."""
        for step, files in self._complete():
            try:
                for path in files:
                    read_header(path)
            except CheckpointError as error:
                self._skip(files, error)
                continue
            return step, files
        return None

    def awaits(self, step: int, patience_s: float) -> bool:
        """Wait for another member's checkpoint of this step, for as long as it is being written."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if any(found == step for found, _ in self._complete()):
                return True
            unfinished = [_age_s(path) for path in self.path.glob(f".step-{step:012}*{UNFINISHED}")]
            if unfinished and min(unfinished) < patience_s:
                deadline = time.monotonic() + patience_s
            time.sleep(0.05)
        return False

    def load(
        self, files: list[Path], *, mapped: bool = False
    ) -> list[tuple[CheckpointHeader, PackedState]]:
        """The parts of a checkpoint. One that turns out to be damaged is never offered again."""
        try:
            return [read_state(path, mapped=mapped) for path in files]
        except CheckpointError as error:
            self._skip(files, error)
            raise

    def _skip(self, files: list[Path], error: CheckpointError) -> None:
        if not self._bad.issuperset(files):
            self._warn(f"{error}; trying the one before it")
        self._bad.update(files)

    def _complete(self) -> Iterator[tuple[int, list[Path]]]:
        """Checkpoints with all of their parts, the newest first."""
        found: dict[tuple[int, int], dict[int, Path]] = {}
        for path in self.path.glob("step-*.swell"):
            match = NAME.fullmatch(path.name)
            if match and path not in self._bad:
                key = int(match["step"]), int(match["n_parts"] or 1)
                found.setdefault(key, {})[int(match["part"] or 0)] = path
        for (step, n_parts), parts in sorted(found.items(), reverse=True):
            if set(parts) == set(range(n_parts)):
                yield step, [parts[n] for n in range(n_parts)]

    def _prune(self, newest: int) -> None:
        """Keep the newest complete checkpoints; a part of an older one is of no use."""
        steps = sorted({step for step, _ in self._complete() if step <= newest}, reverse=True)
        if len(steps) > self._keep:
            oldest = steps[self._keep - 1]
            for path in sorted(self.path.glob("step-*.swell")):
                match = NAME.fullmatch(path.name)
                if match and int(match["step"]) < oldest:
                    self._disk.remove(path)
        for path in self.path.glob(f".step-*{UNFINISHED}"):
            if _age_s(path) > ABANDONED_S:
                self._disk.remove(path)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # another member has removed it
        return 0.0
