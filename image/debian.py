"""Debian's packages by name, unpacked into a folder; nothing is installed on the machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# Where scanners look for the packages of an image that has no package manager.
RECORDS = "var/lib/dpkg/status.d"


class PackagesError(Exception):
    """The packages cannot be had; the text says what was tried."""


def unpack(packages: Sequence[str], downloads: Path, tree: Path) -> None:
    """Download the packages into one folder and unpack their files into the other."""
    downloads.mkdir(parents=True, exist_ok=True)
    _download(packages, downloads)
    for package in sorted(downloads.glob("*.deb")):
        run(["dpkg-deb", "--extract", str(package), str(tree)], downloads)
        _record(package, tree / RECORDS)


def _record(package: Path, folder: Path) -> None:
    """Leave a package's name, version and maker in the tree."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / package.name.partition("_")[0]).write_text(
        run(["dpkg-deb", "--field", str(package)], package.parent)
    )


def _download(packages: Sequence[str], folder: Path) -> None:
    """Download, after asking for the list of packages if there is none yet."""
    command = ["apt-get", "download", "--quiet", *packages]
    try:
        run(command, folder)
    except PackagesError:
        run(["apt-get", "update", "--quiet"], folder)
        run(command, folder)


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command and return its output; what it said last is the reason if it fails."""
    if not shutil.which(command[0]):
        raise PackagesError(f"{command[0]} is not on this machine")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise PackagesError(f"`{' '.join(command)}` failed: {reason}")
    return done.stdout
