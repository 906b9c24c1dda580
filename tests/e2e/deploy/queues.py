"""A queue with one below it, which closes and opens with it."""

from __future__ import annotations

import asyncio
import contextlib

from swell.api.kinds import QUEUES
from swell.api.meta import Key
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import AlreadyExistsError
from tests.e2e.deploy.installed import WITHIN_S
from tests.e2e.scheduler.objects import queue


async def close_and_open(user: Cluster) -> None:
    """The queue below comes to be what the one above is told to be."""
    for name, parent in (("team", "root"), ("team-a", "team")):
        with contextlib.suppress(AlreadyExistsError):
            await user.create(QUEUES.untyped(), queue(name, parent=parent))
    for state in ("Closed", "Open"):
        change = merge_patch({"status": {"state": state}})
        await user.patch(QUEUES.status, Key("", "team"), change)
        async with asyncio.timeout(WITHIN_S):
            while (await _state(user, "team-a")) != state:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


async def _state(user: Cluster, name: str) -> str:
    return (await user.get(QUEUES, Key("", name))).status.state.value
