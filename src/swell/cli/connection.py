"""Opens the chosen cluster for a command, and turns its errors into sentences for people."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swell.cli.choice import ClusterChoice, CommandEnvironment, NoClusterError, choose
from swell.cli.command_line import CommandError
from swell.cli.error_texts import CHECK_KUBECONFIG, CLUSTER_FAILURES, from_cluster_failure
from swell.cli.options import ClusterOptions
from swell.cluster.home import is_running
from swell.cluster.kube.access import Access, AccessError
from swell.cluster.kube.kubeconfig import in_cluster, read_kubeconfig
from swell.cluster.kube.oneshot import OneShot


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The cluster of one command, with the client for its calls."""

    client: OneShot
    access: Access
    home: Path | None = None  # the state folder, if the cluster is an embedded one

    @property
    def embedded(self) -> bool:
        return self.home is not None

    def namespace(self, asked: str, in_manifest: str = "") -> str:
        """Returns the namespace to use: the flag's, else the manifest's, else the context's."""
        return asked or in_manifest or self.access.namespace or "default"

    def announce_change(self) -> None:
        """Print the cluster that is about to be changed, unless it is an embedded one."""
        if not self.embedded:
            sys.stderr.write(f"cluster: {self.access.context}\n")


@contextmanager
def connected(flags: ClusterOptions) -> Iterator[ClusterConnection]:
    """Opens the chosen cluster. Errors of its calls are raised as CommandError."""
    choice = _chosen(flags)
    access = _access(choice)
    try:
        client = OneShot(access, random.Random())  # noqa: S311
        home = choice.kubeconfigs[0].parent if choice.embedded else None
        yield ClusterConnection(client, access, home)
    except CLUSTER_FAILURES as error:
        raise from_cluster_failure(error, access.server, embedded=choice.embedded) from error
    except AccessError as error:
        raise CommandError(str(error), CHECK_KUBECONFIG) from error


def chosen_access(flags: ClusterOptions) -> Access:
    """Returns the access to the chosen cluster, for programs that stay connected."""
    return _access(_chosen(flags))


def access_if_any(flags: ClusterOptions) -> Access | None:
    """Returns the access to the chosen cluster; None if nothing chooses one."""
    try:
        choice = choose(flags, current_environment())
    except NoClusterError:
        return None
    return _access(choice)


def current_environment() -> CommandEnvironment:
    """Returns the facts about this machine by which a cluster is chosen."""
    return CommandEnvironment(
        environ=os.environ, user_home=Path.home(), is_running=is_running, is_file=Path.is_file
    )


def _chosen(flags: ClusterOptions) -> ClusterChoice:
    try:
        return choose(flags, current_environment())
    except NoClusterError as error:
        raise CommandError(str(error), error.hint) from error


def _access(choice: ClusterChoice) -> Access:
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
