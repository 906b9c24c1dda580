"""Finds out what kind of private mounts containers can have on this machine, by trying."""

from __future__ import annotations

import marshal
import os
import tempfile
from pathlib import Path

from swell.node import supervisor
from swell.node.process.launcher import Launcher
from swell.node.process.preparation import HOSTS


def find_namespace() -> str:
    """ "root" or "user" where a container can have private mounts, else nothing."""
    if not supervisor.LINUX:
        return ""
    kinds = ("root", "user") if os.geteuid() == 0 else ("user",)
    with tempfile.TemporaryDirectory(prefix="swell-try-") as folder:
        return next((kind for kind in kinds if _works(kind, Path(folder) / kind)), "")


def _works(kind: str, folder: Path) -> bool:
    """Whether a process can see a hosts file of its own, and a folder the machine has not."""
    stage, hosts = folder / "stage", folder / "hosts"
    stage.mkdir(parents=True)
    hosts.write_text("127.0.0.1 swell-try\n")
    order = {
        "argv": ("grep", "-q", "swell-try", HOSTS, "/swell-try/hosts"),
        "env": {"PATH": os.environ.get("PATH", os.defpath)},
        "cwd": "/",
        "log": str(folder / "log"),
        "namespace": kind,
        "mounts": ((str(hosts), HOSTS, True), (str(folder), "/swell-try", False)),
        "stage": str(stage),
    }
    (folder / supervisor.ORDER).write_bytes(marshal.dumps(order))
    launcher = Launcher(folder)
    told, tell = os.pipe()
    try:
        launcher.launch(folder, tell)
        os.close(tell)
        with os.fdopen(told, "rb") as report:
            return b"\nexit 0 " in report.read()
    except OSError:
        return False
    finally:
        launcher.close()
