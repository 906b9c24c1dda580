"""Runs commands in the surroundings of a running container: for probes and for preStop."""

from __future__ import annotations

import asyncio
import marshal
import shutil

from swell.node import supervisor
from swell.node.process.container import Box
from swell.node.process.launcher import Launcher
from swell.node.process.supervised import Supervised
from swell.runtime.clock import Clock


class Errands:
    """Every command is a process of its own, which ends with the agent."""

    def __init__(self, launcher: Launcher, clock: Clock) -> None:
        self._launcher = launcher
        self._clock = clock
        self._n_begun = 0

    async def succeeds(self, box: Box, command: tuple[str, ...], within_s: float) -> bool:
        """Whether a command ends well; TimeoutError when not in time, OSError from the disk."""
        if box.run is None or not box.is_live:
            return False
        self._n_begun += 1
        # One that a killed agent has left may have the name.
        folder = box.run.folder / f"exec-{self._n_begun}"
        folder.mkdir(parents=True, exist_ok=True)
        order = marshal.loads((box.run.folder / supervisor.ORDER).read_bytes())  # noqa: S302
        order |= {
            "argv": command,
            "log": str(folder / "log"),
            "dies_with_parent": True,
            "message": (),
        }
        ended = asyncio.Event()
        run = Supervised(folder, self._clock, ended.set)
        run.begin(self._launcher, order)
        try:
            async with asyncio.timeout(within_s):
                while run.ended is None:
                    await ended.wait()
                    ended.clear()
            return run.ended.exit_code == 0
        finally:
            run.kill()
            if run.ended is not None:
                shutil.rmtree(folder, ignore_errors=True)
