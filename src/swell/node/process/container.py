"""One container of a pod as the runtime holds it: its latest run, its health, its end to come."""

from __future__ import annotations

import asyncio
import marshal
import shutil
from dataclasses import dataclass, field

from swell.node import supervisor
from swell.node.pods import BoundContainer
from swell.node.process.launcher import Launcher
from swell.node.process.probes import Prober
from swell.node.process.setup.resources import Cgroup, ResourceLimits
from swell.node.process.supervised import Supervised
from swell.node.runs import CREATING, Exited, Run, Running, Waiting
from swell.runtime.clock import Clock


@dataclass(slots=True)
class ContainerSlot:
    container: BoundContainer
    attempt: int = 0
    run: Supervised | None = None
    waiting: Waiting | None = None
    former: Exited | None = None
    prober: Prober | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    cgroup: Cgroup = field(default_factory=Cgroup)
    stopping: asyncio.Task[None] | None = None
    kill_at: float | None = None
    kill_timer: asyncio.TimerHandle | None = None

    @property
    def is_live(self) -> bool:
        """Whether there may be a process."""
        return self.run is not None and self.run.ended is None

    @property
    def pid(self) -> int:
        return self.run.process.pid if self.run is not None and self.run.process else 0

    @property
    def is_watched(self) -> bool:
        """Whether its memory is limited, and by nobody but us."""
        has_limit = self.limits.memory_bytes is not None and not self.cgroup.limits_memory
        return has_limit and self.is_live and self.pid > 0

    def shown(self) -> Run:
        """The latest run, as decisions see it."""
        if self.waiting is not None:
            return Run(self.attempt, self.waiting, self.former)
        if self.run is None:
            return Run(self.attempt, Waiting(CREATING), self.former)
        if self.run.ended is not None:
            return Run(self.attempt, self.run.ended, self.former)
        if self.run.started_at is None:
            return Run(self.attempt, Waiting(CREATING), self.former)
        health = self.prober.health if self.prober else None
        if health is None:
            return Run(self.attempt, Running(self.run.started_at), self.former)
        running = Running(
            self.run.started_at,
            health.is_started,
            health.is_started and health.is_ready and self.kill_at is None,
            health.unhealthy,
            health.unhealthy_grace_s,
        )
        return Run(self.attempt, running, self.former)

    def runs_out_of_memory(self) -> bool:
        return self.cgroup.has_run_out()


class ExecRunner:
    """Every command is a process of its own, which ends with the agent."""

    def __init__(self, launcher: Launcher, clock: Clock) -> None:
        self._launcher = launcher
        self._clock = clock
        self._n_begun = 0

    async def succeeds(self, box: ContainerSlot, command: tuple[str, ...], within_s: float) -> bool:
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
