"""Brings the programs that Debian builds better than we could, from its packages by name.

Unpacks them beside the built binaries and installs nothing on the machine. runc without
libseccomp is refused by containers' default profile, so it is not built from source.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from image.debian import run, unpack

PACKAGES = ("runc", "containernetworking-plugins", "busybox-static")
PROGRAMS = {"runc": "usr/sbin/runc", "busybox": "bin/busybox"}
PLUGINS = ("bridge", "host-local", "loopback")
PLUGIN_FOLDER = "usr/lib/cni"


def fetch(bin_dir: Path, cni_dir: Path, say: Callable[[str], None]) -> None:
    """Put runc and busybox into one folder and the network plugins into the other."""
    sources = {bin_dir / name: source for name, source in PROGRAMS.items()}
    sources |= {cni_dir / name: f"{PLUGIN_FOLDER}/{name}" for name in PLUGINS}
    if all(os.access(target, os.X_OK) for target in sources):
        return
    say(f"fetching {', '.join(PACKAGES)}")
    with tempfile.TemporaryDirectory(dir=bin_dir.parent, prefix=".packages-") as scratch:
        tree = Path(scratch)
        unpack(PACKAGES, tree, tree)
        run([str(tree / PROGRAMS["runc"]), "--version"], tree)
        for target, source in sources.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            (tree / source).replace(target)
