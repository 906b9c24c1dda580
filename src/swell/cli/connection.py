"""Opens the chosen cluster for a command, and says in words what went wrong with it."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swell.cli.choice import Choice, Flags, NoClusterError, Surroundings, choose
from swell.cli.failure import CommandError
from swell.cli.troubles import CHECK_KUBECONFIG, TROUBLES, with_cluster
from swell.cluster.home import is_running
from swell.cluster.kube.access import Access, AccessError
from swell.cluster.kube.kubeconfig import in_cluster, read_kubeconfig
from swell.cluster.kube.oneshot import OneShot


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """One cluster, open for a few calls."""

    client: OneShot
    access: Access
    home: Path | None = None  # the state folder of an embedded one

    @property
    def embedded(self) -> bool:
        return self.home is not None

    def namespace(self, asked: str, in_manifest: str = "") -> str:
        """The namespace meant: the flag's, else the manifest's, else the context's."""
        return asked or in_manifest or self.access.namespace or "default"

    def announce_change(self) -> None:
        """Name the cluster that is about to be changed, unless it is the user's own machine."""
        if not self.embedded:
            sys.stderr.write(f"cluster: {self.access.context}\n")


@contextmanager
def connected(flags: Flags) -> Iterator[ClusterConnection]:
    """The chosen cluster; whatever it refuses ends the command with a sentence."""
    choice = _chosen(flags)
    access = _access(choice)
    try:
        with OneShot(access, random.Random()) as client:  # noqa: S311
            home = choice.kubeconfigs[0].parent if choice.embedded else None
            yield ClusterConnection(client, access, home)
    except TROUBLES as error:
        raise with_cluster(error, access.server, embedded=choice.embedded) from error
    except AccessError as error:
        raise CommandError(str(error), CHECK_KUBECONFIG) from error


def chosen_access(flags: Flags) -> Access:
    """The way to the chosen cluster, for programs that stay connected."""
    return _access(_chosen(flags))


def surroundings() -> Surroundings:
    """This machine, as it is now."""
    return Surroundings(
        environ=os.environ, user_home=Path.home(), is_running=is_running, is_file=Path.is_file
    )


def _chosen(flags: Flags) -> Choice:
    try:
        return choose(flags, surroundings())
    except NoClusterError as error:
        raise CommandError(str(error), error.hint) from error


def _access(choice: Choice) -> Access:
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
