"""One container of a pod as the runtime holds it: its latest run, its health, its end to come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from swell.node.pods import BoundContainer
from swell.node.process.limits import Cgroup, Limits
from swell.node.process.probes import Prober
from swell.node.process.supervised import Supervised
from swell.node.runs import CREATING, Exited, Run, Running, Waiting


@dataclass(slots=True)
class Box:
    container: BoundContainer
    attempt: int = 0
    run: Supervised | None = None
    waiting: Waiting | None = None
    former: Exited | None = None
    prober: Prober | None = None
    limits: Limits = field(default_factory=Limits)
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
