"""Finds out whether pods can be kept out of the state folder here, by trying it at the start.

As root every pod gets a user of its own. As another user a pod keeps that user, in a user namespace
in which the state folder is covered and everything but its own folders is read only.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from swell.cluster.private import make_private_folder, write_private
from swell.cluster.trees import remove_tree
from swell.node.process.launcher import try_run
from swell.node.process.setup.spec import WORK
from swell.node.process.setup.users import RANGES, AgentUser, UserRange

# Exits with 0 when the secret cannot be read and the working folder can be written to.
_TRIAL = """
import os, sys
try:
    open(sys.argv[1]).read()
except OSError:
    open("made", "w").close()
else:
    sys.exit("the state folder can be read")
"""


class IsolationError(Exception):
    """Pods cannot be isolated here; the message says why."""


def isolated_agent(home: Path, namespace: str) -> AgentUser:
    """The agent's user with the way it isolates pods; IsolationError when there is none."""
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        if namespace != "user":
            raise IsolationError("the kernel gives this user no user namespaces with mounts")
        _check(home, namespace, ())
        return AgentUser(uid, gid, isolated=True)
    if namespace != "root":
        raise IsolationError("private mounts are not possible here")
    users = _usable_range()
    _check(home, namespace, (users.first, users.first))
    return AgentUser(uid, gid, isolated=True, users=users)


class PythonPlaces(NamedTuple):
    """The mounts by which other users reach this Python, and the folders that are in the way."""

    mounts: tuple[tuple[str, str, bool], ...] = ()
    closed: tuple[str, ...] = ()


def python_places() -> PythonPlaces:
    """The folders of this Python that lie below folders closed to others, such as root's home.

    A closed folder is covered in a container, and nothing but these folders shown in it.
    """
    executable = Path(sys.executable)
    wanted = {Path(sys.prefix), Path(sys.base_prefix), executable.resolve().parent.parent}
    wanted |= {Path(place) for place in sys.path if place}
    roots = sorted(p for p in wanted if p.is_dir() and wanted.isdisjoint(p.parents))
    found = {place: _closed_above(place) for place in roots}
    mounts = tuple((str(p), str(p), True) for p, closed in found.items() if closed is not None)
    return PythonPlaces(mounts, tuple(sorted({str(c) for c in found.values() if c is not None})))


def _closed_above(place: Path) -> Path | None:
    """The first folder on the way to a place that other users cannot pass."""
    way = [*reversed(place.parents)]
    return next((folder for folder in way if not folder.stat().st_mode & 0o001), None)


def _usable_range() -> UserRange:
    """A range of users that this process may become: a container may have few of them."""
    maps = Path("/proc/self/uid_map").read_text().split()
    mapped = [
        range(int(first), int(first) + int(count))
        for first, count in zip(maps[0::3], maps[2::3], strict=True)
    ]
    for users in RANGES:
        last = users.first + users.n_users - 1
        if any(users.first in known and last in known for known in mapped):
            return users
    raise IsolationError("this user namespace has no users to spare for pods")


def _check(home: Path, namespace: str, user: tuple[int, ...]) -> None:
    """Run a process as a pod would be, and have it try to read a file of the state folder."""
    make_private_folder(home / "node")
    folder = Path(tempfile.mkdtemp(prefix="isolation-", dir=home / "node"))
    try:
        work, secret, stage = folder / "work", folder / "secret", folder / "stage"
        for place in (work, stage):
            make_private_folder(place)
        write_private(secret, "secret")
        if user:
            os.chown(work, *user)
        places = python_places()
        spec: dict[str, object] = {
            "argv": (sys.executable, "-I", "-S", "-c", _TRIAL, str(secret)),
            "env": {"HOME": WORK, "PATH": os.environ.get("PATH", os.defpath)},
            "cwd": WORK,
            "log": str(folder / "log"),
            "namespace": namespace,
            "mounts": ((str(work), WORK, False),),
            "stage": str(stage),
        }
        if user:
            mounts = (*places.mounts, (str(work), WORK, False))
            spec |= {"user": user, "mounts": mounts, "hidden": places.closed}
        else:
            spec |= {"hidden": (str(home),), "read_only": True}
        if not try_run(folder, spec) or not (work / "made").exists():
            raise IsolationError(f"a trial failed: {_last_line(folder / 'log')}")
    finally:
        remove_tree(folder)


def _last_line(log: Path) -> str:
    """The line that a process of a run printed last."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "it could not be started"
