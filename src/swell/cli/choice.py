"""Decides which cluster a command talks to. Pure: what it depends on is handed in.

The first of these that applies is chosen (`RULES`):

1. `--kubeconfig`, `--context` or `--embedded`;
2. `$SWELL_HOME`: the embedded cluster there, running or not;
3. the cluster that `swell use` has saved, or the embedded one after `swell up`, running or not;
4. an embedded cluster that runs in the default place;
5. `$KUBECONFIG`;
6. the service account of a pod;
7. `~/.kube/config`.

An embedded cluster precedes `$KUBECONFIG`, so that a first try on a laptop never lands on a
production cluster by surprise. Where nothing but its running (4), or an earlier `swell up` (3),
speaks for it and `$KUBECONFIG` names another cluster, that one is reported as the `rival`: commands
that write refuse, and those that read say which one they asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from swell.cli.options import ClusterOptions
from swell.cli.saved_choice import SavedChoice

# Kubernetes sets this variable in every container of a pod.
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
NOT_RUNNING = "the embedded cluster in {home} is not running"
START_IT = "start it with: swell up"
START_OR_LEAVE = f"{START_IT}; to use another one: swell use CONTEXT, or swell use - to forget it"


class ChosenBy(StrEnum):
    """The rule by which a cluster was chosen, in the words of `swell cluster`."""

    FLAG = "--kubeconfig, --context or --embedded on the command line"
    SWELL_HOME = "SWELL_HOME in the environment: the embedded cluster there"
    SAVED = "the choice made with swell use"
    LAST_USED = "the embedded cluster, which swell up made the last choice"
    RUNNING = "an embedded cluster that runs (swell up)"
    KUBECONFIG = "KUBECONFIG in the environment"
    POD = "the service account of the pod that the command runs in"
    USUAL_FILE = "~/.kube/config"


# In the order in which they are tried.
RULES = (
    ChosenBy.FLAG,
    ChosenBy.SWELL_HOME,
    ChosenBy.SAVED,
    ChosenBy.LAST_USED,
    ChosenBy.RUNNING,
    ChosenBy.KUBECONFIG,
    ChosenBy.POD,
    ChosenBy.USUAL_FILE,
)


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """The parts of this machine's state that the choice depends on.

    `server_of` returns the address in kubeconfig files; empty if they name no cluster.
    """

    environ: Mapping[str, str]
    user_home: Path
    is_running: Callable[[Path], bool]
    is_file: Callable[[Path], bool]
    server_of: Callable[[Sequence[Path]], str]
    saved: SavedChoice | None = None


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The chosen cluster. Without kubeconfig files it is the one this pod runs in.

    `rival` is the address of another cluster that `$KUBECONFIG` names, where nobody has decided
    between the two.
    """

    by: ChosenBy
    kubeconfigs: tuple[Path, ...] = ()
    context: str = ""
    embedded: bool = False
    rival: str = ""


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
    found = choose_running_or_not(options, environment)
    home = state_folder(environment.environ, environment.user_home)
    if found.embedded and not environment.is_running(home):
        is_named = found.by in {ChosenBy.FLAG, ChosenBy.SWELL_HOME}
        raise NoClusterError(
            NOT_RUNNING.format(home=home), START_IT if is_named else START_OR_LEAVE
        )
    return found


def choose_running_or_not(
    options: ClusterOptions, environment: CommandEnvironment
) -> ClusterChoice:
    """Return the cluster that is selected, also an embedded one that does not run now."""
    if options.kubeconfig:
        return ClusterChoice(ChosenBy.FLAG, (Path(options.kubeconfig),), options.context)
    if options.embedded:
        home = state_folder(environment.environ, environment.user_home)
        return _embedded(ChosenBy.FLAG, home)
    if options.context:
        files = _named_files(environment) or (_usual_file(environment),)
        return ClusterChoice(ChosenBy.FLAG, files, options.context)
    return _choose_without_flags(environment)


def _choose_without_flags(environment: CommandEnvironment) -> ClusterChoice:
    environ = environment.environ
    home = state_folder(environ, environment.user_home)
    named = _named_files(environment)
    if environ.get("SWELL_HOME"):
        return _embedded(ChosenBy.SWELL_HOME, home)
    if environment.saved is not None and environment.saved.is_by_user:
        return _saved(environment.saved, home)
    # The kubeconfig that `swell up` prints names the embedded cluster, for us as well.
    if named == (home / "kubeconfig",):
        return _embedded(ChosenBy.KUBECONFIG, home)
    if environment.saved is not None:
        return _embedded(ChosenBy.LAST_USED, home, _rival(named, home, environment))
    if environment.is_running(home):
        return _embedded(ChosenBy.RUNNING, home, _rival(named, home, environment))
    if named:
        return ClusterChoice(ChosenBy.KUBECONFIG, named)
    if IN_CLUSTER in environ:
        return ClusterChoice(ChosenBy.POD)
    if environment.is_file(_usual_file(environment)):
        return ClusterChoice(ChosenBy.USUAL_FILE, (_usual_file(environment),))
    raise NoClusterError("no cluster is chosen and none is running", START_IT)


def home_to_use(options: ClusterOptions, environment: CommandEnvironment) -> Path | None:
    """Return the state folder of the embedded cluster that `swell run` starts or uses.

    None when another cluster is named. Neither `~/.kube/config` nor a pod's account names one:
    `swell run` without options must not submit to a cluster that the user has not mentioned.
    """
    home = state_folder(environment.environ, environment.user_home)
    try:
        found = choose_running_or_not(options, environment)
    except NoClusterError:
        return home
    is_unmentioned = found.by in {ChosenBy.POD, ChosenBy.USUAL_FILE}
    return home if found.embedded or is_unmentioned else None


def _named_files(environment: CommandEnvironment) -> tuple[Path, ...]:
    named = environment.environ.get("KUBECONFIG", "")
    return tuple(Path(part) for part in named.split(os.pathsep) if part)


def _usual_file(environment: CommandEnvironment) -> Path:
    return environment.user_home / ".kube" / "config"


def _embedded(by: ChosenBy, home: Path, rival: str = "") -> ClusterChoice:
    return ClusterChoice(by, (home / "kubeconfig",), embedded=True, rival=rival)


def _saved(saved: SavedChoice, home: Path) -> ClusterChoice:
    if not saved.context:
        return _embedded(ChosenBy.SAVED, home)
    files = tuple(map(Path, saved.kubeconfigs))
    return ClusterChoice(ChosenBy.SAVED, files, saved.context)


def _rival(named: Sequence[Path], home: Path, environment: CommandEnvironment) -> str:
    """Return the address of the cluster that KUBECONFIG names if it is not the embedded one."""
    other = environment.server_of(named) if named else ""
    return other if other and other != environment.server_of((home / "kubeconfig",)) else ""
