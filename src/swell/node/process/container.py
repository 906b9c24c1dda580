"""Pods and their containers as the runtime holds them, and commands that run inside one."""

from __future__ import annotations

import asyncio
import marshal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.meta import Key, Uid
from swell.cluster.private import make_private_folder
from swell.cluster.trees import discard_tree
from swell.node import supervisor
from swell.node.pods import BoundContainer, BoundPod
from swell.node.process.launcher import Launcher
from swell.node.process.probes import Prober
from swell.node.process.setup.resources import Cgroup, ResourceLimits, TreeUsage
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

    def is_gone(self) -> bool:
        """Whether nothing runs any more; removes the cgroups, which is possible only then."""
        if self.is_live:
            return False
        if not self.cgroup.remove():
            self.cgroup.kill()
            return False
        return True

    @property
    def supervisor_pid(self) -> int:
        return self.run.supervisor_pid if self.run is not None else 0

    @property
    def is_watched(self) -> bool:
        """Whether it has a limit that no cgroup enforces."""
        if not self.is_live or not self.supervisor_pid:
            return False
        has_memory = self.limits.memory_bytes is not None and not self.cgroup.limits_memory
        return has_memory or (
            self.limits.processes is not None and not self.cgroup.limits_processes
        )

    def kill_if_over(self, used: TreeUsage) -> None:
        """Kill a container whose processes use more than it may."""
        memory, processes = self.limits.memory_bytes, self.limits.processes
        if memory is not None and used.memory_bytes > memory:
            self.kill_for_memory()
        # The kernel refuses more to most users; this is for root, whom that does not concern.
        elif processes is not None and used.n_threads > processes and self.run is not None:
            n_used = used.n_threads
            self.run.why_killed = f"it had {n_used} processes and threads, {processes} are allowed"
            self.run.kill()

    def kill_for_memory(self) -> None:
        if self.run is not None:
            self.run.is_out_of_memory = True
            self.run.kill()

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


@dataclass(slots=True)
class PodEntry:
    """A pod that has a folder. `pod` is None for one of an earlier agent, until it is seen."""

    uid: Uid
    key: Key
    log_folder: Path
    pod: BoundPod | None = None
    slots: dict[str, ContainerSlot] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether one of its containers may have a process."""
        return any(slot.is_live for slot in self.slots.values())


class ExecRunner:
    """Runs commands in the environment of a running container: for probes, preStop and people.

    Every command has a supervisor of its own, which ends with the agent.
    """

    def __init__(self, launcher: Launcher, clock: Clock) -> None:
        self._launcher = launcher
        self._clock = clock
        self._n_started = 0

    def new_folder(self, run: SupervisedRun) -> Path:
        """Make a folder for one command inside the container of a run."""
        self._n_started += 1
        # A killed agent may have left a folder of this name.
        folder = run.folder / f"exec-{self._n_started}"
        make_private_folder(folder)
        return folder

    def start(
        self,
        container: SupervisedRun,
        command: tuple[str, ...],
        folder: Path,
        changed: Callable[[], None],
        *,
        stdio: tuple[str, ...] = (),
    ) -> SupervisedRun:
        """Start a command with the variables, limits, mounts and user of a container's process."""
        spec = marshal.loads((container.folder / supervisor.SPEC_FILE).read_bytes())  # noqa: S302
        spec |= {
            "argv": command,
            "log": str(folder / "log"),
            "dies_with_parent": True,
            "message": (),
            "stdio": stdio,
        }
        run = SupervisedRun(folder, self._clock, changed)
        run.start(self._launcher, spec)
        return run

    async def succeeds(
        self, slot: ContainerSlot, command: tuple[str, ...], within_s: float
    ) -> bool:
        """Whether a command exits with 0; TimeoutError when not in time, OSError from the disk."""
        if slot.run is None or not slot.is_live:
            return False
        folder = self.new_folder(slot.run)
        ended = asyncio.Event()
        is_abandoned = False

        def changed() -> None:
            ended.set()
            if is_abandoned and run.ended is not None:
                discard_tree(folder)

        run = self.start(slot.run, command, folder, changed)
        try:
            async with asyncio.timeout(within_s):
                while run.ended is None:
                    await ended.wait()
                    ended.clear()
            return run.ended.exit_code == 0
        finally:
            is_abandoned = True
            run.kill()
            if run.ended is not None:
                discard_tree(folder)
