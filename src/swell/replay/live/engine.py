"""One replay with the live programs: jobs come, hollow nodes run them, and all of them end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from swell.api.kinds import AI_TRAINING_JOBS
from swell.autoscaler.controller import AutoscalerMeters
from swell.autoscaler.policies import POLICIES
from swell.replay.engine import Observer, ReplayLog
from swell.replay.live.control import ControlPlane, settings_of
from swell.replay.live.manifests import job_body, job_name
from swell.replay.live.nodes import HollowNodes
from swell.replay.live.programs import ReplayedProgram
from swell.replay.physics import JobRun
from swell.replay.sizers import ReplayCluster
from swell.replay.traces import TraceError
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.process import BugMeter
from swell.sim.server import SimulatedServer

USER, KUBELET = "user", "kubelet"
# The policies that live programs have, and rigid sizes by the scheduler alone.
FIRST_COME = "first-come"
LIVE_POLICIES = (*POLICIES, FIRST_COME)
# Objects are there, and all caches synced, before the first job comes.
_WARM_UP_S = 30.0
# Sizes are noted this often for the picture.
_NOTE_S = 60.0
# A replay that takes longer in virtual time has a job that never ends.
_VIRTUAL_S_MAX = 400 * 86400.0


@dataclass(frozen=True, slots=True)
class LiveRules:
    """The autoscaler's policy, or none; how often it decides, and how long a resize rests."""

    policy: str
    period_s: float = 30.0
    cooldown_s: float = 60.0


def replay_live(
    runs: Sequence[JobRun],
    cluster: ReplayCluster,
    rules: LiveRules,
    observe: Observer | None = None,
) -> ReplayLog:
    """Runs all jobs to their ends, decided by the real programs. Deterministic.

    `observe` is called now and then with all jobs, those that run or wait, and the time.
    """
    log = ReplayLog(list(runs), cluster.capacity)
    run(_LiveReplay(log, cluster, rules, observe).run())
    for job in log.jobs:
        # Times of the trace begin after the warm-up.
        job.shift(-_WARM_UP_S)
    return log


class _LiveReplay:
    """The tasks of one replay."""

    def __init__(
        self,
        log: ReplayLog,
        cluster: ReplayCluster,
        rules: LiveRules,
        observe: Observer | None = None,
    ) -> None:
        self._log = log
        self._observe = observe
        self._cluster = cluster
        self._rules = rules
        self._tasks: list[asyncio.Task[Any]] = []
        self._failed: list[BaseException] = []
        self._ended = asyncio.Event()
        self._n_left = len(log.jobs)

    async def run(self) -> None:
        clock, chance = VirtualClock(), Chance(0)
        server = SimulatedServer(clock, chance, ())
        programs: dict[str, ReplayedProgram] = {}
        nodes = HollowNodes(server.connect(KUBELET), clock, self._spawn, programs)
        server.storage.on_commit.append(nodes.on_commit)
        await nodes.register(self._cluster.n_nodes, self._cluster.per_node)
        for index, job in enumerate(self._log.jobs):
            job.shift(_WARM_UP_S)
            name = job_name(index)

            async def end(name: str = name) -> None:
                await nodes.end(name)
                self._n_left -= 1
                if not self._n_left:
                    self._ended.set()

            programs[name] = ReplayedProgram(
                job, clock, end, tells_total=self._cluster.tier != "blind"
            )
        control = ControlPlane(server.connect, clock, chance)
        services = [*server.controllers(), *control.operator(programs), *control.scheduler()]
        is_elastic = self._rules.policy in POLICIES
        if is_elastic:
            settings = settings_of(self._rules.policy, self._rules.period_s, self._rules.cooldown_s)
            services += control.autoscaler(settings, AutoscalerMeters(passes=BugMeter()))
        for service in services:
            self._spawn(service)
        self._spawn(self._submit(server, clock, programs, is_elastic=is_elastic))
        self._spawn(self._note_sizes(clock))
        try:
            async with asyncio.timeout(_VIRTUAL_S_MAX):
                await self._ended.wait()
        except TimeoutError:
            raise TraceError("a job does not end within 400 days") from None
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failed:
            raise self._failed[0]

    async def _submit(
        self,
        server: SimulatedServer,
        clock: VirtualClock,
        programs: dict[str, ReplayedProgram],
        *,
        is_elastic: bool,
    ) -> None:
        user = server.connect(USER)
        for index, job in enumerate(self._log.jobs):
            await clock.sleep(max(job.submitted_s - clock.monotonic(), 0.0))
            body = job_body(
                index,
                job,
                self._cluster.capacity,
                is_elastic=is_elastic,
                shares=self._cluster.tier == "shared",
            )
            self._spawn(programs[job_name(index)].live())
            await user.create(AI_TRAINING_JOBS, body)

    async def _note_sizes(self, clock: VirtualClock) -> None:
        while True:
            now = clock.monotonic() - _WARM_UP_S
            active = [
                job
                for job in self._log.jobs
                if not job.is_done and job.submitted_s <= clock.monotonic()
            ]
            if active:
                self._log.rounds.append((now, {job.name: job.size for job in active}))
            if self._observe is not None:
                self._observe(self._log.jobs, active, now)
            await clock.sleep(_NOTE_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._on_done)
        self._tasks.append(task)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed.append(error)
            self._ended.set()
