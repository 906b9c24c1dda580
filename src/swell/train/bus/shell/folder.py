"""Reads the members folder and the release file, which others rewrite at any time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from swell.api import injection
from swell.train.bus.messages import Roster

# The link that Kubernetes swaps when a mounted ConfigMap changes: all files behind it are of one
# version.
_DATA = "..data"
_TRIES = 3


class MembersFolder:
    """One role's part of the members folder."""

    def __init__(self, path: Path, role: str) -> None:
        self._path = path
        self._role = role
        self._last: tuple[bytes, ...] = ()

    def read(self) -> Roster | None:
        """The folder as it is; None while it is not whole, or has not changed since last time."""
        for _ in range(_TRIES):
            try:
                found = self._read_version()
            except OSError:
                continue  # It was swapped meanwhile, or is not there yet.
            if found == self._last:
                return None
            roster = parse_roster(self._role, *found)
            if roster is not None:
                self._last = found
            return roster
        return None

    def _read_version(self) -> tuple[bytes, bytes, bytes]:
        data = self._path / _DATA
        base = self._path / data.readlink() if data.is_symlink() else self._path
        epoch = (base / "epoch").read_bytes()
        instances = base / injection.INSTANCES_FILE
        found = (
            epoch,
            (base / self._role).read_bytes(),
            instances.read_bytes() if instances.exists() else b"",
        )
        # Where there is no link, the files change one by one; the epoch is written last.
        if (base / "epoch").read_bytes() != epoch:
            raise OSError("the folder has changed while it was read")
        return found


def parse_roster(role: str, epoch: bytes, hosts: bytes, instances: bytes) -> Roster | None:
    """The roster in the texts of the three files; None where they make no sense (yet)."""
    try:
        counts = {
            name: tuple(map(int, numbers))
            for name, *numbers in map(str.split, filter(str.strip, instances.decode().splitlines()))
        }
        # A row is `host[:port]`. The port is the program's own, not the bus'.
        names = tuple(row.partition(":")[0] for row in hosts.decode().split())
        return Roster(int(epoch), names, counts.get(role, ()))
    except ValueError:
        return None


def read_release(path: Path | None) -> float | None:
    """Seconds until this process has to be gone; None when it was not asked to leave.

    A deadline that cannot be read is no reason to stay: the answer is then infinite.
    """
    if path is None:
        return None
    try:
        text = path.read_text().strip()
    except (OSError, ValueError):
        return None
    if not text:
        return None
    try:
        deadline = datetime.fromisoformat(str(json.loads(text)["deadline"]))
        aware = deadline if deadline.tzinfo else deadline.replace(tzinfo=UTC)
        return max(0.0, (aware - datetime.now(UTC)).total_seconds())
    except (ValueError, KeyError, TypeError):
        return float("inf")
