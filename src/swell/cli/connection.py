"""Opens the chosen cluster for a command, and turns its errors into sentences for people."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swell.cli.choice import ClusterChoice, CommandEnvironment, NoClusterError, choose
from swell.cli.command_line import CommandError, note
from swell.cli.error_texts import CHECK_KUBECONFIG, CLUSTER_FAILURES, from_cluster_failure
from swell.cli.options import ClusterOptions
from swell.cli.output import printable
from swell.cli.saved_choice import SavedChoiceError, read_saved_choice, saved_choice_file
from swell.cluster.home import is_running
from swell.cluster.kube.access import Access, AccessError
from swell.cluster.kube.kubeconfig import in_cluster, read_kubeconfig
from swell.cluster.kube.oneshot import OneShot

FORGET = "make a new one: swell use embedded, or swell use CONTEXT"


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The cluster of one command, with the client for its calls."""

    client: OneShot
    access: Access
    home: Path | None = None  # the state folder, if the cluster is an embedded one

    @property
    def embedded(self) -> bool:
        return self.home is not None

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The names that our scheduler has there besides its own, as far as that is known."""
        from swell.scheduler.config import SOLE_SCHEDULER_NAMES

        return SOLE_SCHEDULER_NAMES if self.embedded else frozenset()

    def namespace(self, asked: str, in_manifest: str = "") -> str:
        """Returns the namespace to use: the flag's, else the manifest's, else the context's."""
        return asked or in_manifest or self.access.namespace or "default"


@contextmanager
def connected(flags: ClusterOptions, *, writes: bool = False) -> Iterator[ClusterConnection]:
    """Opens the chosen cluster. Errors of its calls are raised as CommandError.

    With `writes` a cluster that is not the embedded one is named on a terminal, and nothing is
    opened where two clusters could be meant.
    """
    choice = _chosen(flags, writes=writes)
    access = access_of(choice)
    if writes and not choice.embedded and sys.stderr.isatty():
        note(f"cluster: {access.context}")
    with opened(choice, access, WarningNotes().add) as connection:
        yield connection


class WarningNotes:
    """Shows what the server warns of, each warning once in a command."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def add(self, text: str) -> None:
        if text not in self._shown:
            self._shown.add(text)
            note(f"warning: {printable(text)}")


@contextmanager
def opened(
    choice: ClusterChoice, access: Access, warn: Callable[[str], None] = lambda _: None
) -> Iterator[ClusterConnection]:
    """Opens a cluster that was chosen. Errors of its calls are raised as CommandError."""
    client = None
    try:
        client = OneShot(access, random.Random(), keeps_connection=True, warn=warn)  # noqa: S311
        home = choice.kubeconfigs[0].parent if choice.embedded else None
        yield ClusterConnection(client, access, home)
    except CLUSTER_FAILURES as error:
        raise from_cluster_failure(error, access.server, embedded=choice.embedded) from error
    except AccessError as error:
        raise CommandError(str(error), CHECK_KUBECONFIG) from error
    finally:
        if client is not None:
            client.close()


def chosen_access(flags: ClusterOptions) -> Access:
    """Returns the access to the chosen cluster, for programs that stay connected."""
    return access_of(_chosen(flags, writes=True))


def access_if_any(flags: ClusterOptions) -> Access | None:
    """Returns the access to the chosen cluster; None if nothing chooses one."""
    try:
        choice = choose(flags, current_environment())
    except NoClusterError:
        return None
    return access_of(choice)


def current_environment() -> CommandEnvironment:
    """Returns the facts about this machine by which a cluster is chosen."""
    home = Path.home()
    path = saved_choice_file(os.environ, home)
    try:
        saved = read_saved_choice(path)
    except SavedChoiceError as error:
        raise CommandError(f"the saved choice of a cluster is damaged: {error}", FORGET) from error
    return CommandEnvironment(
        environ=os.environ,
        user_home=home,
        is_running=is_running,
        is_file=Path.is_file,
        server_of=_server_of,
        saved=saved,
    )


def refuse_rival(choice: ClusterChoice) -> None:
    """Refuse to write where two clusters could be meant."""
    if choice.rival:
        state = "is running" if is_running(choice.kubeconfigs[0].parent) else "was used last"
        raise CommandError(
            f"the embedded cluster {state}, and KUBECONFIG names another: {choice.rival}",
            "say which is meant: --embedded, or --kubeconfig $KUBECONFIG (for good: swell use)",
        )


def _server_of(paths: Sequence[Path]) -> str:
    try:
        return read_kubeconfig(paths).server
    except (AccessError, OSError):
        return ""  # files that name no cluster do not compete with one that runs


def _chosen(flags: ClusterOptions, *, writes: bool) -> ClusterChoice:
    try:
        choice = choose(flags, current_environment())
    except NoClusterError as error:
        raise CommandError(str(error), error.hint) from error
    if writes:
        refuse_rival(choice)
    elif choice.rival:
        note(f"note: asked the embedded cluster, not that of KUBECONFIG ({choice.rival})")
    return choice


def access_of(choice: ClusterChoice) -> Access:
    """Returns the address of a cluster and the way to log in there."""
    try:
        found = (
            read_kubeconfig(choice.kubeconfigs, choice.context)
            if choice.kubeconfigs
            else in_cluster(os.environ)
        )
    except AccessError as error:
        raise CommandError(str(error), CHECK_KUBECONFIG) from error
    if found is None:
        raise CommandError("no service account is mounted in this pod")
    return found
