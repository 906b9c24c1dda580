"""One container of a pod as the runtime holds it, and commands that run inside it."""

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
from swell.node.process.supervised import SupervisedRun
from swell.node.runs import CREATING, Exited, Run, Running, Waiting
from swell.runtime.clock import Clock


@dataclass(slots=True)
class ContainerSlot:
    """The latest run of a container, with its probes, limits and the timers of its end."""

    container: BoundContainer
    attempt: int = 0
    run: SupervisedRun | None = None
    waiting: Waiting | None = None  # set while there is no run, because it could not be started
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
        """Whether its memory is limited and no cgroup enforces the limit."""
        has_limit = self.limits.memory_bytes is not None and not self.cgroup.limits_memory
        return has_limit and self.is_live and self.pid > 0

    def current_run(self) -> Run:
        """Returns the latest run in the form that decisions take."""
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
            # A container that is being stopped gets no more traffic, whatever its probe says.
            health.is_started and health.is_ready and self.kill_at is None,
            health.unhealthy,
            health.unhealthy_grace_s,
        )
        return Run(self.attempt, running, self.former)

    def has_oom_kill(self) -> bool:
        # Not the bound method of the cgroup: that is replaced when the run is provisioned.
        return self.cgroup.has_oom_kill()


class ExecRunner:
    """Runs commands in the environment of a running container, for probes and for preStop.

    Every command has a supervisor of its own, which ends with the agent.
    """

    def __init__(self, launcher: Launcher, clock: Clock) -> None:
        self._launcher = launcher
        self._clock = clock
        self._n_started = 0

    async def succeeds(
        self, slot: ContainerSlot, command: tuple[str, ...], within_s: float
    ) -> bool:
        """Whether a command exits with 0; TimeoutError when not in time, OSError from the disk."""
        if slot.run is None or not slot.is_live:
            return False
        self._n_started += 1
        # A killed agent may have left a folder of this name.
        folder = slot.run.folder / f"exec-{self._n_started}"
        folder.mkdir(parents=True, exist_ok=True)
        spec = marshal.loads((slot.run.folder / supervisor.SPEC_FILE).read_bytes())  # noqa: S302
        spec |= {
            "argv": command,
            "log": str(folder / "log"),
            "dies_with_parent": True,
            "message": (),
        }
        ended = asyncio.Event()
        run = SupervisedRun(folder, self._clock, ended.set)
        run.start(self._launcher, spec)
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
