"""Reads the members folder and the release file, which others rewrite at any time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from swell.api import injection
from swell.train.bus.messages import Roster

# The link that Kubernetes swaps when a mounted ConfigMap changes: all files behind it are of one
# version.
_DATA = "..data"
_TRIES = 3
_OTHERS = (
    injection.INSTANCES_FILE,
    injection.FORMER_FILE,
    injection.SUCCEEDED_FILE,
    injection.UIDS_FILE,
)


class MembersFolder:
    """One role's part of the members folder."""

    def __init__(self, path: Path, role: str) -> None:
        self._path = path
        self._role = role
        self._last: dict[str, bytes] = {}

    def read(self) -> Roster | None:
        """The folder as it is; None while it is not whole, or has not changed since last time."""
        for _ in range(_TRIES):
            try:
                found = self._read_version()
            except OSError:
                continue  # It was swapped meanwhile, or is not there yet.
            if found == self._last:
                return None
            roster = parse_roster(self._role, found)
            if roster is not None:
                self._last = found
            return roster
        return None

    def names(self, index: int, uid: str) -> bool:
        """Whether the folder, as it was read last, has a pod's UID as the newest at its index."""
        entries = _entries_of(self._role, self._last.get(injection.UIDS_FILE, b""))
        return f"{index}={uid}" in (entries or ())

    def _read_version(self) -> dict[str, bytes]:
        data = self._path / _DATA
        base = self._path / data.readlink() if data.is_symlink() else self._path
        found = {name: (base / name).read_bytes() for name in ("epoch", self._role)}
        for name in _OTHERS:
            if (base / name).exists():
                found[name] = (base / name).read_bytes()
        # Where there is no link, the files change one by one; the epoch is written last.
        if (base / "epoch").read_bytes() != found["epoch"]:
            raise OSError("the folder has changed while it was read")
        return found


def parse_roster(role: str, texts: Mapping[str, bytes]) -> Roster | None:
    """The roster in the texts of the files, by name; None where they make no sense (yet)."""
    counts, former, succeeded = (
        _entries_of(role, texts.get(name, b""))
        for name in (injection.INSTANCES_FILE, injection.FORMER_FILE, injection.SUCCEEDED_FILE)
    )
    try:
        # A row is `host[:port]`. The port is the program's own, not the bus'.
        names = tuple(row.partition(":")[0] for row in texts[role].decode().split())
        living = None if former is None else tuple(_pair_of(entry) for entry in former)
        ended = (_pair_of(entry) for entry in succeeded or ())
        done = tuple(sorted((index, int(number)) for index, number in ended))
        return Roster(int(texts["epoch"]), names, tuple(map(int, counts or ())), living, done)
    except ValueError:
        return None


def _entries_of(role: str, text: bytes) -> list[str] | None:
    """The entries of a role's line, after its name; None without such a line."""
    lines = map(str.split, filter(str.strip, text.decode(errors="replace").splitlines()))
    return next((entries for name, *entries in lines if name == role), None)


def _pair_of(entry: str) -> tuple[int, str]:
    index, is_pair, value = entry.partition("=")
    if not is_pair or not value:
        raise ValueError(f"{entry} is no pair")
    return int(index), value


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
