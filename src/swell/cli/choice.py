"""Which cluster a command talks to. Pure: what it looks at is handed in.

In this order: what the flags say; `$SWELL_HOME`, the embedded cluster there, running or not;
`$KUBECONFIG`; an embedded cluster that runs in the default place; `~/.kube/config`; the service
account of a pod. So a first try on a laptop never lands on a production cluster by surprise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
NOT_RUNNING = "the embedded cluster in {home} is not running"
START_IT = "start it with: swell up"


@dataclass(frozen=True, slots=True)
class Flags:
    """What the user said about the cluster on the command line."""

    kubeconfig: str = ""
    context: str = ""
    embedded: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What can be seen of the machine."""

    environ: Mapping[str, str]
    user_home: Path
    is_running: Callable[[Path], bool]
    is_file: Callable[[Path], bool]


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster chosen; without kubeconfig files it is the one this pod runs in."""

    kubeconfigs: tuple[Path, ...] = ()
    context: str = ""
    embedded: bool = False


class NoClusterError(Exception):
    """No cluster can be had; `hint` says how to get one."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def state_folder(environ: Mapping[str, str], user_home: Path) -> Path:
    """Where the embedded cluster keeps everything."""
    chosen = environ.get("SWELL_HOME")
    return Path(chosen) if chosen else user_home / ".local" / "state" / "swell"


def choose(flags: Flags, seen: Surroundings) -> Choice:
    """The cluster that flags and surroundings point at, or NoClusterError."""
    home = state_folder(seen.environ, seen.user_home)
    if flags.kubeconfig:
        return Choice((Path(flags.kubeconfig),), flags.context)
    if flags.embedded or (_is_home_named(seen, home) and not flags.context):
        return _embedded(home, seen)
    if named := seen.environ.get("KUBECONFIG"):
        files = tuple(Path(part) for part in named.split(os.pathsep) if part)
        return Choice(files, flags.context)
    if not flags.context and seen.is_running(home):
        return Choice((home / "kubeconfig",), embedded=True)
    usual = seen.user_home / ".kube" / "config"
    if seen.is_file(usual):
        return Choice((usual,), flags.context)
    if IN_CLUSTER in seen.environ and not flags.context:
        return Choice()
    raise NoClusterError("no cluster is chosen and none is running", START_IT)


def home_to_use(flags: Flags, seen: Surroundings) -> Path | None:
    """The state folder of the embedded cluster that `swell run` is to use, running or not.

    None when another cluster is named. Nobody gets a job onto the cluster of `~/.kube/config`
    without having named it.
    """
    if flags.kubeconfig or (flags.context and not flags.embedded):
        return None
    home = state_folder(seen.environ, seen.user_home)
    is_named = flags.embedded or _is_home_named(seen, home)
    return home if is_named or not seen.environ.get("KUBECONFIG") else None


def _is_home_named(seen: Surroundings, home: Path) -> bool:
    """Whether the surroundings name the embedded cluster: by its folder, or as `up` prints it."""
    named = seen.environ.get("KUBECONFIG")
    return bool(seen.environ.get("SWELL_HOME")) or named == str(home / "kubeconfig")


def _embedded(home: Path, seen: Surroundings) -> Choice:
    if not seen.is_running(home):
        raise NoClusterError(NOT_RUNNING.format(home=home), START_IT)
    return Choice((home / "kubeconfig",), embedded=True)
