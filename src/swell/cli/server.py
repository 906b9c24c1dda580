"""`swell server`: the embedded API server with its built-in controllers, alone."""

from __future__ import annotations

import os
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
) -> None:
    """Run the embedded API server until it is told to stop."""
    from swell.cluster.embedded.http.credentials import PortError
    from swell.cluster.embedded.http.serving import Served, serve
    from swell.cluster.home import AlreadyRunningError

    def announce(served: Served) -> None:
        sys.stdout.write(f"export KUBECONFIG={served.kubeconfig}\n")
        sys.stdout.flush()

    home = state_folder(os.environ, Path.home())
    try:
        serve(home, port, on_ready=announce)
    except AlreadyRunningError as error:
        raise CommandError(str(error), "use it, or stop it first") from error
    except PortError as error:
        raise CommandError(str(error), "choose another with --port") from error
