"""`swell server`: the embedded API server with its built-in controllers, alone."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from swell.cli.choice import state_folder
from swell.cli.failure import CommandError


def server(
    *,
    port: Annotated[
        int | None, typer.Option("--port", help="Port; the last one used, or a free one.")
    ] = None,
    node_monitor_grace_period: Annotated[
        str,
        typer.Option(
            "--node-monitor-grace-period",
            help="How long a node may be silent before its state is unknown: 40s, 2m.",
        ),
    ] = "40s",
) -> None:
    """Run the embedded API server until it is told to stop."""
    from swell.cluster.embedded.controllers.all import Settings
    from swell.cluster.embedded.http.credentials import PortError
    from swell.cluster.embedded.http.serving import Served, serve
    from swell.cluster.home import AlreadyRunningError

    def announce(served: Served) -> None:
        sys.stdout.write(f"export KUBECONFIG={served.kubeconfig}\n")
        sys.stdout.flush()

    settings = Settings(node_monitor_grace_s=_seconds(node_monitor_grace_period))
    home = state_folder(os.environ, Path.home())
    try:
        serve(home, port, on_ready=announce, settings=settings)
    except AlreadyRunningError as error:
        raise CommandError(str(error), "use it, or stop it first") from error
    except PortError as error:
        raise CommandError(str(error), "choose another with --port") from error


def _seconds(text: str) -> float:
    """A duration as flags of Kubernetes have it; a bare number is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration; write 40s or 2m")
    unit_s = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
    return float(found[1]) * unit_s[found[2]]
