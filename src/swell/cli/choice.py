"""Decides which cluster a command talks to. Pure: what it depends on is handed in.

The first of these that applies is chosen:

1. `--kubeconfig`;
2. `--embedded`, or `$SWELL_HOME`: the embedded cluster there, running or not;
3. `$KUBECONFIG`;
4. an embedded cluster that runs in the default place;
5. `~/.kube/config`;
6. the service account of a pod.

A running embedded cluster precedes `~/.kube/config`, so that a first try on a laptop never lands
on a production cluster by surprise. `--context` skips 2 (unless `--embedded`), 4 and 6: contexts
are names in kubeconfig files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from swell.cli.options import ClusterOptions

# Kubernetes sets this variable in every container of a pod.
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
NOT_RUNNING = "the embedded cluster in {home} is not running"
START_IT = "start it with: swell up"


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """The parts of this machine's state that the choice depends on."""

    environ: Mapping[str, str]
    user_home: Path
    is_running: Callable[[Path], bool]
    is_file: Callable[[Path], bool]


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The chosen cluster. Without kubeconfig files it is the one this pod runs in."""

    kubeconfigs: tuple[Path, ...] = ()
    context: str = ""
    embedded: bool = False


class NoClusterError(Exception):
    """There is no cluster to talk to; `hint` tells the user how to get one."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def state_folder(environ: Mapping[str, str], user_home: Path) -> Path:
    """Return the folder in which the embedded cluster keeps everything."""
    chosen = environ.get("SWELL_HOME")
    return Path(chosen) if chosen else user_home / ".local" / "state" / "swell"


def choose(options: ClusterOptions, environment: CommandEnvironment) -> ClusterChoice:
    """Return the cluster that options and environment select, or raise NoClusterError."""
    home = state_folder(environment.environ, environment.user_home)
    if options.kubeconfig:
        return ClusterChoice((Path(options.kubeconfig),), options.context)
    if options.embedded or (_is_home_named(environment, home) and not options.context):
        return _embedded(home, environment)
    if named := environment.environ.get("KUBECONFIG"):
        files = tuple(Path(part) for part in named.split(os.pathsep) if part)
        return ClusterChoice(files, options.context)
    if not options.context and environment.is_running(home):
        return ClusterChoice((home / "kubeconfig",), embedded=True)
    usual = environment.user_home / ".kube" / "config"
    if environment.is_file(usual):
        return ClusterChoice((usual,), options.context)
    if IN_CLUSTER in environment.environ and not options.context:
        return ClusterChoice()
    raise NoClusterError("no cluster is chosen and none is running", START_IT)


def home_to_use(options: ClusterOptions, environment: CommandEnvironment) -> Path | None:
    """Return the state folder of the embedded cluster that `swell run` starts or uses.

    None when another cluster is named. `~/.kube/config` does not name one: `swell run` without
    options must not submit to a cluster that the user has not mentioned.
    """
    if options.kubeconfig or (options.context and not options.embedded):
        return None
    home = state_folder(environment.environ, environment.user_home)
    is_named = options.embedded or _is_home_named(environment, home)
    return home if is_named or not environment.environ.get("KUBECONFIG") else None


def _is_home_named(environment: CommandEnvironment, home: Path) -> bool:
    """Whether variables name the embedded cluster: its folder, or the kubeconfig `up` prints."""
    named = environment.environ.get("KUBECONFIG")
    return bool(environment.environ.get("SWELL_HOME")) or named == str(home / "kubeconfig")


def _embedded(home: Path, environment: CommandEnvironment) -> ClusterChoice:
    if not environment.is_running(home):
        raise NoClusterError(NOT_RUNNING.format(home=home), START_IT)
    return ClusterChoice((home / "kubeconfig",), embedded=True)
