"""The command `swell dashboard`: the page of any cluster, by the caller's own credentials."""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import chosen_access
from swell.cli.options import ClusterOptions, option_groups

if TYPE_CHECKING:
    from swell.cluster.kube.access import Access
    from swell.page.server import PagePlacement


@option_groups
def dashboard(
    *,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")
    ] = True,
    serve: Annotated[
        str,
        typer.Option(
            "--serve",
            metavar="HOST:PORT",
            help="For others: listen there, and let users log in with their own tokens alone.",
        ),
    ] = "",
    cluster: ClusterOptions,
) -> None:
    """Serve the page of a cluster until told to stop."""
    from swell.page.server import PagePlacement

    host, colon, number = serve.rpartition(":")
    if serve and (not colon or not number.isdecimal() or int(number) > 65535):
        raise CommandError(f"--serve: {serve!r} is not like 0.0.0.0:8080", exit_code=USAGE)
    access = chosen_access(cluster)
    if serve:
        placement, code = PagePlacement(host or "0.0.0.0", int(number)), ""  # noqa: S104
    else:
        code = secrets.token_urlsafe(9)
        placement = PagePlacement(port=port, own=access, code=code)
    try:
        asyncio.run(_serve(access, placement, code, opens=browser and not serve))
    except OSError as error:
        raise CommandError(f"cannot listen: {error.strerror}", "choose another --port") from error
    except KeyboardInterrupt:
        note("stopped")


async def _serve(access: Access, placement: PagePlacement, code: str, *, opens: bool) -> None:
    from swell.page.server import serving
    from swell.runtime.clock import SystemClock

    async with serving(
        access, placement, clock=SystemClock(), random=random.SystemRandom()
    ) as address:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        note(f"log in there with the code {code}" if code else "users log in with their tokens")
        if opens and sys.stdout.isatty():
            import webbrowser

            await asyncio.to_thread(webbrowser.open, address)
        await asyncio.get_running_loop().create_future()
