"""The commands `swell rotate token` and `certificate`: new credentials of the embedded cluster.

The files are replaced, and a running server takes them up. The commands return when it does: from
then on the old ones are refused.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell.cli.choice import state_folder
from swell.cli.command_line import CommandError
from swell.cluster.home import has_been_used, is_running

if TYPE_CHECKING:
    from collections.abc import Callable

    from swell.cluster.embedded.http.credentials import Files
    from swell.cluster.kube.access import Access

app = typer.Typer(help="Replace the embedded cluster's own token or certificate.")
# The server looks at its files twice a second.
_WITHIN_S = 10.0
_PAUSE_S = 0.05


@app.command()
def token() -> None:
    """Make a new token for the owner of the cluster. The old one is refused from then on.

    The kubeconfig has the new one. Watches and logs that are followed with the old one end.
    """
    from swell.cluster.embedded.http.credentials import replace_token
    from swell.cluster.kube.kubeconfig import read_kubeconfig

    files = _files()
    old = read_kubeconfig([files.kubeconfig])
    replace_token(files)
    if is_running(files.folder):
        _wait(lambda: not _is_accepted(old) and _is_accepted(_current(files)))
    sys.stdout.write(f"a new token is in {files.kubeconfig}; the old one is refused\n")


@app.command()
def certificate() -> None:
    """Make a new key and certificate for the server. The old one is shown to nobody any more.

    The kubeconfig trusts the new one alone. Kubeconfigs of users have to be made anew (swell user
    renew), and agents of other processes (swell node) to be started again.
    """
    from swell.cluster.embedded.http.credentials import replace_certificate

    files = _files()
    replace_certificate(files)
    if is_running(files.folder):
        _wait(lambda: _is_accepted(_current(files)))
    sys.stdout.write(f"{files.kubeconfig} trusts a new certificate; the old one is not used\n")


def _files() -> Files:
    from swell.cluster.embedded.http.credentials import Files

    home = state_folder(os.environ, Path.home())
    if not has_been_used(home):
        raise CommandError(f"there is no cluster in {home}", "make one: swell up")
    return Files(home)


def _current(files: Files) -> Access:
    from swell.cluster.kube.kubeconfig import read_kubeconfig

    return read_kubeconfig([files.kubeconfig])


def _is_accepted(access: Access) -> bool:
    """Whether the server accepts this client, and this client the server."""
    from swell.cluster.kube.calls import KubeCall
    from swell.cluster.kube.oneshot import OneShot
    from swell.runtime.errors import UnauthorizedError, UnreachableError

    try:
        client = OneShot(access, random.Random())  # noqa: S311
        client.send(KubeCall("GET", "/version", bytes))
    except (UnauthorizedError, UnreachableError):
        return False
    return True


def _wait(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not is_done():
        if time.monotonic() > deadline:
            raise CommandError(
                f"the server has not taken it up within {_WITHIN_S:.0f} s",
                "start it anew: swell down, then swell up",
            )
        time.sleep(_PAUSE_S)
