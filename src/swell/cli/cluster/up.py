"""The commands `swell up` and `down`: the embedded cluster with all its parts, in one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.choice import state_folder
from swell.cli.cluster.choosing import remember_embedded
from swell.cli.command_line import CommandError, note
from swell.cli.controllers.standalone import (
    NOT_ISOLATED,
    NewCluster,
    NodeOptions,
    ServerOptions,
)
from swell.cli.extras import require_scheduler
from swell.cli.invocation import Invocation
from swell.cli.options import option_groups
from swell.cluster.home import KUBECONFIG, SERVER, LockHolder, lock_holder

if TYPE_CHECKING:
    from swell.up.assembly import UpOptions

Detach = Annotated[bool, typer.Option("--detach", help="In the background; returns when ready.")]


@option_groups
def up(
    context: typer.Context,
    *,
    detach: Detach = False,
    new: NewCluster = False,
    server: ServerOptions,
    nodes: NodeOptions,
) -> None:
    """Run API server, operator, scheduler, autoscaler and node agent until told to stop."""
    # A wrong flag is refused here, also by `up --detach`, whose child would only log it.
    nodes.check()
    require_scheduler()
    invocation: Invocation = context.obj
    flags = [argument for argument in invocation.arguments[1:] if argument != "--detach"]
    home = state_folder(os.environ, Path.home())
    running = lock_holder(home)
    if running is not None:
        _report_running(home, running, flags)
        return
    if detach:
        start_in_background(home, flags)
        _print_kubeconfig(home / KUBECONFIG)
        return
    from swell.up.assembly import UpOptions

    remember_embedded()
    _run(UpOptions(nodes.agent_options(home), server.port, server.controller_settings(), new))


def down() -> None:
    """Stop the embedded cluster and every process of its jobs."""
    from swell.up.background import stop

    home = state_folder(os.environ, Path.home())

    def report(running: LockHolder) -> None:
        note(f"stopping {running.what} (pid {running.pid}) ...")
        sys.stderr.flush()

    outcome = "stopped" if stop(home, report) else "nothing was running"
    note(f"{outcome} in {home}")


def start_in_background(home: Path, flags: list[str]) -> None:
    """Start a cluster and wait until it is ready; if it fails, show the end of its log."""
    from swell.up.background import NotReadyError, start

    require_scheduler()
    note(f"starting an embedded cluster in {home} ...")
    sys.stderr.flush()
    try:
        start(home, flags)
    except NotReadyError as error:
        if error.tail:
            sys.stderr.write(f"{error.tail}\n")
        raise CommandError(f"the cluster did not start: {error}", f"see {error.log}") from error
    remember_embedded()


def wait_for_parts(home: Path) -> None:
    """Wait for a cluster that another process is starting, or has started."""
    from swell.up.background import NotReadyError, wait_ready

    try:
        wait_ready(home)
    except NotReadyError as error:
        hint = f"see {error.log}, or stop it: swell down"
        raise CommandError(f"the cluster in {home} is {error}", hint) from error


def _report_running(home: Path, running: LockHolder, flags: list[str]) -> None:
    if running.what == SERVER:
        raise CommandError(f"swell server runs in {home}", "stop it first: swell down")
    wait_for_parts(home)
    note(f"already running in {home} (pid {running.pid})")
    if flags:
        note("  it keeps the flags it was started with; swell down ends it")
    _print_kubeconfig(home / KUBECONFIG)


def _print_kubeconfig(path: Path) -> None:
    from swell.up.page import read_place

    sys.stdout.write(f"export KUBECONFIG={path}\n")
    sys.stdout.flush()
    place = read_place(path.parent)
    if place is not None:
        # The code is for the person at the terminal: it must not get into a log.
        code = f"; log in there with the code {place.code}" if sys.stderr.isatty() else ""
        note(f"page: {place.address}{code}")


def _run(options: UpOptions) -> None:
    from swell.cli.store_errors import store_errors
    from swell.cluster.embedded.http.credentials import PortError
    from swell.cluster.home import AlreadyRunningError
    from swell.node.machine import this_machine
    from swell.node.process.isolation import IsolationError
    from swell.runtime import logs
    from swell.runtime.clock import SystemClock
    from swell.runtime.logfile import handler_for
    from swell.runtime.manager import ServiceFailedError
    from swell.up.assembly import run_up
    from swell.up.background import LOG

    # On a terminal only warnings are shown; a log file holds more.
    level = "warning" if sys.stderr.isatty() else "info"
    handler = handler_for(options.agent.home / LOG)
    logs.configure(level=level, clock=SystemClock(), handler=handler)
    try:
        with store_errors(options.agent.home):
            run_up(this_machine(), options, _print_kubeconfig)
    except AlreadyRunningError as error:
        hint = "use it, or stop it: swell down"
        raise CommandError(f"another process serves {error.home}", hint) from error
    except PortError as error:
        raise CommandError(str(error), "choose another with --port") from error
    except IsolationError as error:
        raise CommandError(f"--isolate: {error}", NOT_ISOLATED) from error
    except ServiceFailedError as error:
        raise CommandError(f"the cluster ended: {error.name}", "the log says why") from error
