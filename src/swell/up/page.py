"""The place of the page in an embedded cluster: its address, and the code to log in.

Both are in a private file of the state folder, from where `swell up` prints them. The port is taken
before the cluster starts, and the page is loaded after it is ready: whoever connects in between
waits a moment.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from swell.cluster.home import KUBECONFIG
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.private import write_private
from swell.runtime.clock import Clock

PAGE_FILE = "page"
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Where the page is, and what is typed there instead of a token."""

    port: int
    code: str

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"


def read_place(home: Path) -> PagePlace | None:
    """Returns the place that the last cluster in a state folder took; None if it took none."""
    try:
        port, code = (home / PAGE_FILE).read_text().split()
        return PagePlace(int(port), code)
    except (FileNotFoundError, ValueError):
        return None


def take_place(home: Path) -> tuple[socket.socket, PagePlace]:
    """Listen on the port of before, or on a free one, and note it with a new code."""
    former = read_place(home)
    listener = None
    if former is not None:
        with suppress(OSError):  # somebody else has it by now
            listener = socket.create_server((HOST, former.port))
    listener = listener or socket.create_server((HOST, 0))
    place = PagePlace(listener.getsockname()[1], secrets.token_urlsafe(9))
    write_private(home / PAGE_FILE, f"{place.port} {place.code}\n")
    return listener, place


async def serve_page(
    home: Path,
    listener: socket.socket,
    place: PagePlace,
    ready: asyncio.Event,
    *,
    clock: Clock,
    random: Random,
) -> None:
    """Serve the page of the cluster in a state folder until cancelled."""
    await ready.wait()
    # Not at the top: it loads a server of its own, which the cluster does not need to start.
    from swell.page.server import PagePlacement, serving

    access = read_kubeconfig([home / KUBECONFIG])
    placement = PagePlacement(listener=listener, own=access, code=place.code)
    async with serving(access, placement, clock=clock, random=random):
        await asyncio.get_running_loop().create_future()
