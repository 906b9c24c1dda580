"""Brings the programs that Debian builds better than we could, from its packages by name.

Unpacks them beside the built binaries and installs nothing on the machine. runc without
libseccomp is refused by containers' default profile, so it is not built from source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

PACKAGES = ("runc", "containernetworking-plugins", "busybox-static")
PROGRAMS = {"runc": "usr/sbin/runc", "busybox": "bin/busybox"}
PLUGINS = ("bridge", "host-local", "loopback")
PLUGIN_FOLDER = "usr/lib/cni"


class PackagesError(Exception):
    """The packages cannot be had; the text says what was tried."""


def fetch(bin_dir: Path, cni_dir: Path, say: Callable[[str], None]) -> None:
    """Put runc and busybox into one folder and the network plugins into the other."""
    sources = {bin_dir / name: source for name, source in PROGRAMS.items()}
    sources |= {cni_dir / name: f"{PLUGIN_FOLDER}/{name}" for name in PLUGINS}
    if all(os.access(target, os.X_OK) for target in sources):
        return
    say(f"fetching {', '.join(PACKAGES)}")
    with tempfile.TemporaryDirectory(dir=bin_dir.parent, prefix=".packages-") as scratch:
        tree = Path(scratch)
        _download(tree)
        for package in sorted(tree.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(tree)], tree)
        _run([str(tree / PROGRAMS["runc"]), "--version"], tree)
        for target, source in sources.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            (tree / source).replace(target)


def _download(folder: Path) -> None:
    """Download, after asking for the list of packages if there is none yet."""
    command = ["apt-get", "download", "--quiet", *PACKAGES]
    try:
        _run(command, folder)
    except PackagesError:
        _run(["apt-get", "update", "--quiet"], folder)
        _run(command, folder)


def _run(command: Sequence[str], folder: Path) -> None:
    if not shutil.which(command[0]):
        raise PackagesError(f"{command[0]} is not on this machine")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise PackagesError(f"`{' '.join(command)}` failed: {reason}")
