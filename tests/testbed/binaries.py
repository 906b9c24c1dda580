"""Where the built binaries are. Decides nothing about how they run, and never builds any."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.build import bin_dir

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")


class BinariesMissingError(Exception):
    """Binaries of the testbed are not there; the text is the one line a person needs."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(names)} not found in {folder}: run `make testbed` once")
        self.folder = folder
        self.names = names


def binary(name: str) -> Path:
    """The path of one built command."""
    require((name,))
    return bin_dir() / name


def require(names: tuple[str, ...] = CONTROL_PLANE) -> None:
    """Raise unless every one of the named commands is there and may be executed."""
    folder = bin_dir()
    missing = tuple(name for name in names if not os.access(folder / name, os.X_OK))
    if missing:
        raise BinariesMissingError(folder, missing)
