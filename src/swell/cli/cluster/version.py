"""`swell version`: which client this is, and which server answers."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell import __version__
from swell.api import codec
from swell.cli import options
from swell.cli.choice import Flags
from swell.cli.connection import connected
from swell.cli.failure import CommandError
from swell.cli.objects.printing import to_json
from swell.cluster.kube.calls import raw


class VersionOutput(StrEnum):
    JSON = "json"


def version(
    *,
    output: Annotated[VersionOutput | None, typer.Option("-o", "--output")] = None,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    embedded: options.Embedded = False,
) -> None:
    """Print the versions of client and server; without a server, only the client's."""
    server = _server_version(Flags(kubeconfig, context, embedded))
    if output is VersionOutput.JSON:
        sys.stdout.write(to_json({"client": __version__, "server": server}))
        return
    sys.stdout.write(f"client {__version__}\nserver {server or 'none'}\n")


def _server_version(flags: Flags) -> str | None:
    try:
        with connected(flags) as connection:
            answer = codec.decode(connection.client.send(raw("/version")), dict)
    except CommandError:
        return None  # no cluster is an ordinary answer here
    found = answer.get("gitVersion")
    return found if isinstance(found, str) else None
