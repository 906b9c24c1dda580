"""`swell server`: the embedded API server with its built-in controllers, alone."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Annotated

import typer

from swell.cli.choice import state_folder
from swell.cli.durations import seconds_of
from swell.cli.failure import CommandError
from swell.cli.troubles import with_store

Port = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="Port; the last one used, or a free one."),
]
MonitorGrace = Annotated[
    float,
    typer.Option(
        "--node-monitor-grace-period",
        help="How long a node may be silent before its state is unknown: 40s, 2m.",
        parser=seconds_of,
        metavar="DURATION",
    ),
]


def server(*, port: Port = None, node_monitor_grace_period: MonitorGrace = 40.0) -> None:
    """Run the embedded API server until it is told to stop."""
    from swell.cluster.embedded.controllers.assembly import BuiltinControllerSettings
    from swell.cluster.embedded.durable import WrongFormatError
    from swell.cluster.embedded.http.credentials import PortError
    from swell.cluster.embedded.http.serving import DATABASE, Served, serve
    from swell.cluster.home import AlreadyRunningError

    def announce(served: Served) -> None:
        sys.stdout.write(f"export KUBECONFIG={served.kubeconfig}\n")
        sys.stdout.flush()

    settings = BuiltinControllerSettings(node_monitor_grace_s=node_monitor_grace_period)
    home = state_folder(os.environ, Path.home())
    try:
        serve(home, port, on_ready=announce, settings=settings)
    except AlreadyRunningError as error:
        raise CommandError(str(error), "use it, or stop it first: swell down") from error
    except PortError as error:
        raise CommandError(str(error), "choose another with --port") from error
    except (sqlite3.DatabaseError, WrongFormatError) as error:
        raise with_store(home / DATABASE, error) from error
