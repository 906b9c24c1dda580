"""The heart of the live scheduler: when something has changed, decides once, and hands out work.

Cycles begin with news or when a time is up, no more often than the period, and never without
either. A cycle looks, decides and hands over without waiting for anything; what it handed over is
done by others at their own pace. What was decided is in the snapshot from that moment on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from swell.api.meta import Key, Uid
from swell.runtime.clock import Clock
from swell.scheduler.config import Config
from swell.scheduler.cycle import SchedulingPlan, run_cycle
from swell.scheduler.live.bind_windows import BindWindows
from swell.scheduler.live.binder import Binder
from swell.scheduler.live.cache import SchedulerCache, is_solo
from swell.scheduler.live.dirty import DirtyMarks
from swell.scheduler.live.evictor import PREEMPTED, RELEASED, EvictionCause, Evictor, is_marked
from swell.scheduler.live.nominations import Admissions, Nominations
from swell.scheduler.live.pod_conditions import PodConditions
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.live.shrinker import Shrink, Shrinker
from swell.scheduler.live.status_updater import StatusUpdater
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus
from swell.scheduler.status import GroupStatus

# While something waits it is looked at this often even if nothing happens: rules may know times.
_LOOK_AGAIN_S = 10.0
# So many pods in such a time are a flood; nobody waits longer than this for its end. A busy watch
# rests for up to 30 ms: who looks sooner than that takes the rest for the end.
_FLOOD = 20
_FLOOD_LOOK_S = 0.05
_FLOOD_S_MAX = 0.7
# How often pods of one group are told the same reason with newer numbers.
_TELL_AGAIN_S = 30.0


class CycleMeter(Protocol):
    """What measures cycles."""

    def cycled(self, plan: SchedulingPlan, seconds: float) -> None: ...

    def released(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Actuators:
    """Who carries out what is decided."""

    binder: Binder
    evictor: Evictor
    shrinker: Shrinker
    updater: StatusUpdater
    pods: PodConditions


class SchedulerLoop:
    """See the module's docstring."""

    def __init__(
        self,
        cache: SchedulerCache,
        windows: BindWindows,
        actuators: Actuators,
        *,
        options: SchedulerSettings,
        config: Callable[[], Config],
        news: DirtyMarks,
        clock: Clock,
        random: Random,
        touch_queue: Callable[[str], None],
        meter: CycleMeter | None = None,
    ) -> None:
        self._cache = cache
        self._snapshot = cache.snapshot
        self._windows = windows
        self._actuators = actuators
        self._options = options
        self._config = config
        self._news = news
        self._clock = clock
        self._random = random
        self._touch_queue = touch_queue
        self._meter = meter
        self._promises = Nominations(self._snapshot, options.promise_slack_s)
        self._admissions = Admissions(self._snapshot, options.inqueue_timeout_s)
        self._told: dict[str, tuple[tuple[Uid, WaitReason], float]] = {}
        self._has_work = False
        self._n_gone = 0
        self._n_come = 0
        self.n_cycles = 0

    async def run(self) -> None:
        """Decide whenever there is reason to, until cancelled."""
        await self._cache.fill()
        self._recover()
        self._news.at_once()
        while True:
            await self._wait()
            await self._gather()
            self.cycle()
            await self._clock.sleep(self._options.schedule_period_s)

    async def _wait(self) -> None:
        """Until there is news, or a time is up."""
        until = self._next_deadline()
        if until is None:
            await self._news.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.monotonic())):
                await self._news.wait()
        except TimeoutError:
            return

    async def _gather(self) -> None:
        """Let a flood come in: deciding on it once costs less than deciding on parts of it."""
        latest, known = self._clock.monotonic() + _FLOOD_S_MAX, self._n_come
        while self._cache.n_come - known >= _FLOOD and self._clock.monotonic() < latest:
            known = self._cache.n_come
            await self._clock.sleep(_FLOOD_LOOK_S)
        self._n_come = self._cache.n_come

    def _next_deadline(self) -> float | None:
        times = [
            self._windows.next_deadline(),
            self._promises.next_deadline(),
            self._admissions.next_deadline(),
            self._actuators.shrinker.next_deadline(),
            self._clock.monotonic() + _LOOK_AGAIN_S if self._has_work else None,
        ]
        return min((time for time in times if time is not None), default=None)

    # --- one cycle

    def cycle(self) -> None:
        """Look, decide, hand over."""
        self._news.take()
        now = self._clock.monotonic()
        self._forget_missing()
        self._keep_times(now)
        config = self._config()
        self._windows.are_kept = keeps_gangs(config)
        touched = self._cache.take_touched()
        for job in touched:
            self._windows.look_at(job, now)
        self._release_overdue(now)
        jobs = {job.key: job for job in (*touched, *self._snapshot.active_jobs())}
        plan = run_cycle(self._snapshot, config, self._clock.now(), report_on=jobs.values())
        self.n_cycles += 1
        self._tell(plan, touched, now)
        self._carry_out(plan, now)
        self._has_work = bool(self._snapshot.active_jobs())
        if self._meter is not None:
            self._meter.cycled(plan, self._clock.monotonic() - now)

    def _forget_missing(self) -> None:
        """Drops notes on what is gone; costs what is noted, so only when something has gone."""
        self._actuators.pods.forget_missing()
        if self._n_gone == self._cache.n_groups_gone:
            return
        self._n_gone = self._cache.n_groups_gone
        jobs = self._snapshot.jobs
        self._windows.forget_missing(jobs)
        self._actuators.updater.forget_missing()
        for key in [key for key in self._told if key not in jobs]:
            del self._told[key]

    def _keep_times(self, now: float) -> None:
        """Ends what has lasted long enough."""
        cooldowns = self._snapshot.cooldowns
        for pair in [pair for pair, until in cooldowns.items() if until <= now]:
            del cooldowns[pair]
        for job in self._promises.broken(now):
            tasks = list(job.in_status(TaskStatus.PIPELINED))
            for task in tasks:
                task.nominated = ""
                self._cache.forget(task)
            self._actuators.pods.nominate(tasks)
        for job in self._admissions.expire(now):
            self._cache.touch(job)
        for preemptor, tasks in self._actuators.shrinker.lingering(now).items():
            self._evict(tasks, EvictionCause(PREEMPTED, f"stayed when shrunk for {preemptor}"))

    def _release_overdue(self, now: float) -> None:
        """Gives up gangs that could not be completed in time: what was bound has to go."""
        for key, window in self._windows.overdue(now).items():
            self._actuators.binder.cancel(key)
            bound: list[Task] = []
            is_open = False
            for uid, pod in window.pods.items():
                task = self._cache.task_of(pod, uid)
                if task is None or uid in self._actuators.evictor:
                    continue
                if task.status in EVICTABLE:
                    bound.append(task)
                elif self._actuators.binder.is_open(uid):
                    is_open = True  # it may be bound: looked at again when that is known
                elif task.status is TaskStatus.BINDING:
                    self._cache.forget(task)
            if bound and self._meter is not None:
                self._meter.released()
            text = f"gang {key} was not complete within {self._options.bind_window_s:.0f} s"
            self._evict(bound, EvictionCause(RELEASED, text))
            if not is_open:
                self._windows.close(key)

    def _evict(self, tasks: list[Task], why: EvictionCause) -> None:
        for task in tasks:
            self._cache.doom(task)
        self._actuators.evictor.evict(tasks, why)

    # --- handing over

    def _carry_out(self, plan: SchedulingPlan, now: float) -> None:
        self._actuators.binder.bind(plan.binds)
        by_claim: dict[tuple[str, str], list[Task]] = {}
        for eviction in plan.evictions:
            claim = (eviction.action, eviction.preemptor)
            by_claim.setdefault(claim, []).append(eviction.task)
            self._make_truce(eviction.task.job, eviction.preemptor, now)
        for (action, preemptor), tasks in by_claim.items():
            text = f"{action} for {preemptor}" if preemptor else action
            self._actuators.evictor.evict(tasks, EvictionCause(PREEMPTED, text))
        self._shrink(plan, now)
        self._promises.look_at(plan.pipelined, now)
        self._actuators.pods.nominate(
            [t for t, node in plan.pipelined.items() if t.pod.status.nominated_node_name != node]
        )

    def _shrink(self, plan: SchedulingPlan, now: float) -> None:
        for job, roles in plan.shrinks.items():
            shrinks = {
                role: Shrink(target, plan.shrunk_for[job, role]) for role, target in roles.items()
            }
            for task in self._snapshot.members(job):
                role = task.elastic.role if task.elastic else ""
                if role in shrinks and task.index >= shrinks[role].target:
                    self._make_truce(task.job, shrinks[role].preemptor, now)
                    self._actuators.shrinker.expect_to_leave([task], shrinks[role].preemptor)
            namespace, _, name = job.partition("/")
            self._actuators.shrinker.shrink(Key(namespace, name), shrinks)

    def _make_truce(self, victim: JobInfo | None, preemptor: str, now: float) -> None:
        if victim is not None and preemptor and preemptor != victim.key:
            self._snapshot.cooldowns[victim.key, preemptor] = now + self._options.cool_down_s

    def _tell(self, plan: SchedulingPlan, touched: Iterable[JobInfo], now: float) -> None:
        """Puts phases and reasons where people look for them."""
        session = f"{self._random.getrandbits(64):016x}"
        fresh = {job.key for job in touched}
        for key, status in plan.groups.items():
            job = self._snapshot.jobs[key]
            if job.phase is not status.phase:
                self._snapshot.set_phase(job, status.phase)
            self._admissions.look_at(job, now)
            if key in fresh and job.queue is not None:
                for queue in job.queue.lineage:
                    self._touch_queue(queue.name)
            if not is_solo(job):
                self._actuators.updater.update_job_status(job, status, session)
            if self._is_to_be_told(job, status, now, is_fresh=key in fresh):
                self._actuators.pods.refuse(plan.pod_refusals(job))

    def _is_to_be_told(
        self, job: JobInfo, status: GroupStatus, now: float, *, is_fresh: bool
    ) -> bool:
        """Whether the job's pods are to say why they wait: at news, and now and then."""
        refusal = status.refusal
        if refusal is None or not job.counts[TaskStatus.PENDING]:
            self._told.pop(job.key, None)
            return False
        told = (job.group.metadata.uid, refusal.reason)
        known, told_at = self._told.get(job.key, (None, 0.0))
        if known == told and not is_fresh and now < told_at + _TELL_AGAIN_S:
            return False
        self._told[job.key] = (told, now)
        return True

    # --- beginning

    def _recover(self) -> None:
        """Takes up what an earlier life of ours has left: promises, and evictions half done."""
        for key in sorted(self._snapshot.jobs):
            job = self._snapshot.jobs[key]
            for task in list(job.in_status(TaskStatus.PENDING)):
                if task.nominated and self._snapshot.nodes.find(task.nominated) >= 0:
                    self._cache.promise(task, task.nominated)
            marked = [task for task in job.evictable() if is_marked(task.pod)]
            if not marked:
                continue
            if job.counts.ready - len(marked) < job.min_member:
                # All of it or none was decided on: not one pod less than that.
                marked = list(job.evictable())
            self._evict(
                marked, EvictionCause(PREEMPTED, "its eviction was decided before a restart")
            )


def keeps_gangs(config: Config) -> bool:
    """Whether jobs start whole or not at all under a configuration."""
    return any(
        option.name == "gang" and option.is_on("enableJobReady")
        for tier in config.tiers
        for option in tier
    )
