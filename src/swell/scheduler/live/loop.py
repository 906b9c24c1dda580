"""The loop of the scheduler: it runs a cycle when something has changed, and hands out the plan.

A cycle starts when a dirty mark is set or a deadline has passed, at most once in a period, and
never without a reason. It reads the snapshot, decides and hands over the plan without awaiting
anything. The actuators carry the plan out at their own pace; the snapshot assumes its result at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from swell.api.meta import Key, Uid
from swell.runtime.clock import Clock
from swell.runtime.logs import get_logger
from swell.scheduler.config import Config
from swell.scheduler.cycle import OnStep, SchedulingPlan, run_cycle
from swell.scheduler.live.bind_windows import BindWindows
from swell.scheduler.live.binder import Binder
from swell.scheduler.live.cache import SchedulerCache, has_status
from swell.scheduler.live.claim_fences import ClaimFences
from swell.scheduler.live.device_releases import DeviceReleases
from swell.scheduler.live.dirty import DirtyMarks
from swell.scheduler.live.eviction_records import (
    PREEMPTED,
    RELEASED,
    EvictionCause,
    beneficiary,
    eviction_cause,
)
from swell.scheduler.live.evictor import Evictor, is_marked, mark_text
from swell.scheduler.live.extended_claims import ExtendedClaims
from swell.scheduler.live.hyper_node_controller import HyperNodeController
from swell.scheduler.live.namespace_quotas import BY_NAMESPACE, explained
from swell.scheduler.live.nominations import Admissions, Nominations
from swell.scheduler.live.pod_conditions import PodConditions
from swell.scheduler.live.preparer import Preparer
from swell.scheduler.live.queue_changes import QueueChanges
from swell.scheduler.live.saving import save_seconds
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.live.shrinker import Shrink, Shrinker
from swell.scheduler.live.status_updater import StatusUpdater
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.tasks import ALLOCATED, EVICTABLE, Task, TaskStatus
from swell.scheduler.model.unsaved import gpu_places, price_text
from swell.scheduler.plugins.predicates import volume_bind_timeout_s
from swell.scheduler.status import GroupStatus
from swell.scheduler.topology_labels import lists_in

log = get_logger(__name__)

# While some job waits, a cycle runs this often even if nothing changes: plugins such as sla have
# rules about time.
_RECHECK_S = 10.0
# So many new pods since the last look are a flood. Its end is awaited, for 0.7 s at the most: one
# cycle for all of it costs less than several for its parts (docs/scheduler-performance.md). A busy
# watch pauses for up to 30 ms, so a shorter look would take a pause for the end.
_FLOOD = 20
_FLOOD_LOOK_S = 0.05
_FLOOD_S_MAX = 0.7
# How often the same reason is written on the pods of a group when only its numbers have changed.
_REPORT_AGAIN_S = 30.0


class CycleMeter(Protocol):
    """Measures cycles and released gangs."""

    def cycled(self, plan: SchedulingPlan, seconds: float) -> None: ...

    def stepped(self, kind: str, name: str, seconds: float) -> None: ...

    def released(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Actuators:
    """The parts that carry out a plan. Each has a queue and workers of its own."""

    binder: Binder
    evictor: Evictor
    shrinker: Shrinker
    updater: StatusUpdater
    pods: PodConditions
    hyper_nodes: HyperNodeController
    preparer: Preparer
    releases: DeviceReleases
    extended: ExtendedClaims
    fences: ClaimFences


class SchedulerLoop:
    """Runs cycles over the snapshot of a cache."""

    def __init__(
        self,
        cache: SchedulerCache,
        windows: BindWindows,
        actuators: Actuators,
        *,
        settings: SchedulerSettings,
        config: Callable[[], Config],
        dirty: DirtyMarks,
        clock: Clock,
        random: Random,
        mark_queue_dirty: Callable[[str], None],
        meter: CycleMeter | None = None,
    ) -> None:
        self._cache = cache
        self._snapshot = cache.snapshot
        self._windows = windows
        self._actuators = actuators
        self._settings = settings
        self._config = config
        self._dirty = dirty
        self._clock = clock
        self._random = random
        self._mark_queue_dirty = mark_queue_dirty
        self._queue_changes = QueueChanges(cache.snapshot)
        self._meter = meter
        self._nominations = Nominations(self._snapshot, settings.nomination_slack_s, self._save_s)
        self._admissions = Admissions(self._snapshot, settings.inqueue_timeout_s)
        # The reason last written on the pods of each job, and when.
        self._reported: dict[str, tuple[tuple[Uid, WaitReason, bool], float]] = {}
        self._has_work = False
        self._n_gone = 0
        self._n_arrived = 0
        self.n_cycles = 0
        self._are_lists_unused = False

    def _save_s(self, task: Task) -> float:
        asked = save_seconds(task.pod, self._cache.informers.jobs.get) or 0
        return min(asked, self._settings.save_seconds_max)

    async def run(self) -> None:
        """Run cycles until cancelled. The first one runs when the cache is filled."""
        await self._cache.fill()
        self._actuators.fences.begin()
        self._recover()
        self._dirty.mark()
        while True:
            await self._wait()
            await self._gather()
            # A snapshot that is being mended decides nothing; the rebuild sets a mark.
            if self._cache.is_filled:
                self.cycle()
            # After the cycle, not before: the first change after a quiet time is served at once.
            await self._clock.sleep(self._settings.schedule_period_s)

    async def _wait(self) -> None:
        """Wait for a dirty mark or the next deadline."""
        until = self._next_deadline()
        if until is None:
            await self._dirty.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.monotonic())):
                await self._dirty.wait()
        except TimeoutError:
            return

    async def _gather(self) -> None:
        """Wait until a flood of new pods has come in."""
        latest, known = self._clock.monotonic() + _FLOOD_S_MAX, self._n_arrived
        while self._cache.n_arrived - known >= _FLOOD and self._clock.monotonic() < latest:
            known = self._cache.n_arrived
            await self._clock.sleep(_FLOOD_LOOK_S)
        self._n_arrived = self._cache.n_arrived

    def _next_deadline(self) -> float | None:
        times = [
            self._windows.next_deadline(),
            self._nominations.next_deadline(),
            self._admissions.next_deadline(),
            self._actuators.shrinker.next_deadline(),
            self._actuators.preparer.next_deadline(),
            self._clock.monotonic() + _RECHECK_S if self._has_work else None,
        ]
        return min((time for time in times if time is not None), default=None)

    # --- one cycle

    def cycle(self) -> None:
        """Run one cycle.

        1. End what has run out of time: cooldowns, nominations, admissions, bind windows.
        2. Decide over the whole snapshot, and report on dirty and active jobs.
        3. Hand over statuses first, then bindings, evictions and shrinks.
        """
        # Cleared before anything is read: a change from now on starts another cycle.
        self._dirty.clear()
        now = self._clock.monotonic()
        self._forget_missing()
        self._end_expired(now)
        config = self._config()
        self._windows.is_enabled = keeps_gangs(config)
        self._note_unused_lists(config)
        storage = self._snapshot.volumes.objects
        storage.are_claims_served = self._cache.informers.claims.is_served
        self._snapshot.hyper_nodes.are_hidden = self._cache.informers.hyper_nodes.is_forbidden
        self._snapshot.devices.objects.are_served = self._cache.informers.resource_claims.is_served
        self._actuators.preparer.check()
        dirty_jobs = self._cache.take_dirty_jobs()
        for job in dirty_jobs:
            self._windows.observe(job, now)
        self._release_overdue(now)
        # Jobs that neither changed nor wait keep their status, so the cost does not grow with the
        # number of running jobs.
        jobs = {job.key: job for job in (*dirty_jobs, *self._snapshot.active_jobs())}
        plan = run_cycle(
            self._snapshot,
            config,
            self._clock.now(),
            report_on=jobs.values(),
            on_step=stopwatch(self._clock, self._meter),
        )
        self.n_cycles += 1
        self._report(plan, dirty_jobs, now)
        self._carry_out(plan, now)
        self._has_work = bool(self._snapshot.active_jobs())
        if self._meter is not None:
            self._meter.cycled(plan, self._clock.monotonic() - now)

    def _note_unused_lists(self, config: Config) -> None:
        """Warn once, each time that HyperNodes take the place of configured label lists."""
        are_unused = bool(self._snapshot.hyper_nodes) and bool(lists_in(config))
        if are_unused and not self._are_lists_unused:
            log.warning("topology.labels is not used", why="there are HyperNodes")
        self._are_lists_unused = are_unused

    def _forget_missing(self) -> None:
        """Drop records about groups that are gone.

        It walks over all records, so only when one went.
        """
        self._cache.compact()
        self._actuators.pods.forget_missing()
        if self._n_gone == self._cache.n_groups_gone:
            return
        self._n_gone = self._cache.n_groups_gone
        jobs = self._snapshot.jobs
        self._windows.forget_missing(jobs)
        self._actuators.updater.forget_missing()
        for key in [key for key in self._reported if key not in jobs]:
            del self._reported[key]

    def _end_expired(self, now: float) -> None:
        """End cooldowns, nominations and admissions, and evict pods that did not leave in time."""
        cooldowns = self._snapshot.cooldowns
        for pair in [pair for pair, until in cooldowns.items() if until <= now]:
            del cooldowns[pair]
        self._forget_avoided(now)
        for job in self._nominations.expired(now):
            tasks = list(job.in_status(TaskStatus.PIPELINED))
            for task in tasks:
                task.nominated = ""  # or the next process would nominate it again
                self._cache.forget(task)
            self._actuators.pods.nominate(tasks)
        for job in self._admissions.expire(now):
            self._cache.mark_dirty(job)
        # A preemptor counts on this room: a pod that ignores the lower target is deleted.
        for preemptor, tasks in self._actuators.shrinker.lingering(now).items():
            text = f"stayed when shrunk for {self._named(preemptor)}"
            self._evict(tasks, EvictionCause(PREEMPTED, text, "Shrunk", preemptor))

    def _forget_avoided(self, now: float) -> None:
        avoided = self._snapshot.avoided
        for claim, nodes in list(avoided.items()):
            for node in [node for node, until in nodes.items() if until <= now]:
                del nodes[node]
            if not nodes:
                del avoided[claim]

    def _release_overdue(self, now: float) -> None:
        """Release gangs that were not completely bound in time, by evicting the pods that were.

        A bound pod cannot be unbound. Without this, two gangs that each got a part of the room
        would wait for each other for ever.
        """
        for key, window in self._windows.overdue(now).items():
            # First no more bindings: otherwise a pod could be bound while the others are evicted.
            self._actuators.binder.cancel(key)
            bound: list[Task] = []
            is_outstanding = False
            for uid, pod in window.pods.items():
                task = self._cache.task_of(pod, uid)
                if task is None or uid in self._actuators.evictor:
                    continue
                if task.status in EVICTABLE:
                    bound.append(task)
                elif self._actuators.binder.is_outstanding(uid):
                    is_outstanding = True  # it may be bound: the window stays until that is known
                elif task.status is TaskStatus.BINDING:
                    self._cache.forget(task)
            if bound and self._meter is not None:
                self._meter.released()
            text = f"gang {key} was not complete within {self._settings.bind_window_s:.0f} s"
            self._evict(bound, EvictionCause(RELEASED, text, RELEASED))
            if not is_outstanding:
                self._windows.close(key)

    def _evict(self, tasks: list[Task], why: EvictionCause) -> None:
        for task in tasks:
            self._cache.mark_for_deletion(task)
        self._actuators.evictor.evict([(tasks, why)], _leaving(tasks))

    # --- handing over

    def _carry_out(self, plan: SchedulingPlan, now: float) -> None:
        timeout_s = volume_bind_timeout_s(self._config())
        self._actuators.preparer.take(plan, timeout_s)
        self._actuators.releases.free(plan.deallocations)
        # After the bindings: the claims of pods that got a node now are used.
        self._actuators.releases.check(timeout_s)
        self._actuators.extended.check(admits_all="enqueue" not in self._config().actions)
        # Pods that leave for one preemptor are marked together: see `evictor`.
        by_cause: dict[tuple[str, str], list[Task]] = {}
        for eviction in plan.evictions:
            cause = (eviction.action, eviction.preemptor)
            by_cause.setdefault(cause, []).append(eviction.task)
            self._start_cooldown(eviction.task.job, eviction.preemptor, now)
        for (action, preemptor), tasks in by_cause.items():
            by_victim: dict[JobInfo | None, list[Task]] = {}
            for task in tasks:
                by_victim.setdefault(task.job, []).append(task)
            winner = self._snapshot.jobs.get(preemptor)
            self._actuators.evictor.evict(
                [
                    (own, eviction_cause(action, winner, own, self._price(own)))
                    for own in by_victim.values()
                ],
                _leaving(tasks),
            )
        self._shrink(plan, now)
        self._actuators.hyper_nodes.follow_tree()
        self._nominations.observe(plan.pipelined, now)
        self._actuators.pods.nominate(
            [t for t, node in plan.pipelined.items() if t.pod.status.nominated_node_name != node]
        )

    def _shrink(self, plan: SchedulingPlan, now: float) -> None:
        for job, roles in plan.shrinks.items():
            shrinks = {
                role: Shrink(target, winner := plan.shrunk_for[job, role], self._named(winner))
                for role, target in roles.items()
            }
            leaving: dict[str, list[Task]] = {}
            for task in self._snapshot.roles.of(job):
                role = task.elastic.role if task.elastic else ""
                if role in shrinks and task.index >= shrinks[role].target:
                    leaving.setdefault(role, []).append(task)
                    self._start_cooldown(task.job, shrinks[role].preemptor, now)
                    self._actuators.shrinker.expect_to_leave([task], shrinks[role].preemptor)
            namespace, _, name = job.partition("/")
            priced = {
                role: replace(shrink, price=self._price(leaving.get(role, ())))
                for role, shrink in shrinks.items()
            }
            self._actuators.shrinker.shrink(Key(namespace, name), priced)

    def _price(self, tasks: Iterable[Task]) -> str:
        """Returns what victims lose, as the rest of a sentence; empty if they lose nothing."""
        text = price_text(tasks, self._clock.now(), gpu_places(self._snapshot.dimensions))
        return f"; {text}" if text else ""

    def _named(self, key: str) -> str:
        """Returns the name of a group that gets room, with its queue and priority."""
        job = self._snapshot.jobs.get(key)
        return key if job is None else beneficiary(job)

    def _start_cooldown(self, victim: JobInfo | None, preemptor: str, now: float) -> None:
        # Only this pair: other jobs may still be preempted by the victim.
        if victim is not None and preemptor and preemptor != victim.key:
            self._snapshot.cooldowns[victim.key, preemptor] = now + self._settings.cooldown_s

    def _report(self, plan: SchedulingPlan, dirty_jobs: Iterable[JobInfo], now: float) -> None:
        """Have the phases and reasons of groups written to groups, pods and queues."""
        # Conditions carry the session that wrote them, as in Volcano.
        session = f"{self._random.getrandbits(64):016x}"
        fresh = {job.key for job in dirty_jobs}
        self._actuators.updater.record_domains(plan.domains, plan.not_applied)
        for key, decided in plan.groups.items():
            job = self._snapshot.jobs[key]
            status = self._with_quotas(job, decided)
            is_changed = job.phase is not status.phase
            if is_changed:
                self._snapshot.set_phase(job, status.phase)
            self._admissions.observe(job, now)
            # Phases of native groups are nowhere else for the queue to be counted by.
            if job.native is not None and job.queue is not None and (is_changed or key in fresh):
                self._mark_queue_dirty(job.queue.name)
            if has_status(job):
                self._actuators.updater.update_job_status(job, status, session)
            if self._is_report_due(job, status, now, is_fresh=key in fresh):
                self._actuators.pods.refuse(plan.pod_refusals(job), status.never)
        for name in self._queue_changes.take():
            self._mark_queue_dirty(name)

    def _with_quotas(self, job: JobInfo, status: GroupStatus) -> GroupStatus:
        quotas, namespace = self._cache.informers.quotas, job.group.metadata.namespace
        return explained(status, lambda: quotas.by_index(BY_NAMESPACE.name, namespace))

    def _is_report_due(
        self, job: JobInfo, status: GroupStatus, now: float, *, is_fresh: bool
    ) -> bool:
        """Whether to write the reason on the job's pods: when it changes, and periodically."""
        refusal = status.refusal
        if refusal is None or not job.counts[TaskStatus.PENDING]:
            self._reported.pop(job.key, None)
            return False
        report = (job.group.metadata.uid, refusal.reason, bool(status.never))
        known, reported_at = self._reported.get(job.key, (None, 0.0))
        if known == report and not is_fresh and now < reported_at + _REPORT_AGAIN_S:
            return False
        self._reported[job.key] = (report, now)
        return True

    # --- beginning

    def _recover(self) -> None:
        """Resume the nominations and the marked evictions that an earlier process has left."""
        for key in sorted(self._snapshot.jobs):
            job = self._snapshot.jobs[key]
            # The victims of these nominations may still be leaving; without this the room would
            # go to another gang.
            for task in list(job.in_status(TaskStatus.PENDING)):
                if task.nominated and self._snapshot.nodes.find(task.nominated) >= 0:
                    self._cache.nominate(task, task.nominated)
            marked = [task for task in job.evictable() if is_marked(task.pod)]
            if not marked:
                continue
            is_unit = job.native is not None and job.native.is_unit
            if is_unit or job.counts.ready - len(marked) < job.min_member:
                # The eviction was of the whole gang, and not all of its pods were marked.
                marked = list(job.evictable())
            text = next(filter(None, (mark_text(task.pod) for task in marked)), "")
            text = text or "its eviction was decided before a restart"
            self._evict(marked, EvictionCause(PREEMPTED, text, "Preempted"))


def _leaving(tasks: Iterable[Task]) -> dict[Key, Uid]:
    """Returns the native gangs of which no pod stays when these leave."""
    found: dict[Key, Uid] = {}
    for task in tasks:
        terms = task.job.native if task.job is not None else None
        group = terms.object if terms is not None else None
        # Pods of a basic group that leave one by one are no gang.
        if terms is None or group is None or (terms.is_basic and not terms.is_unit):
            continue
        if task.job is not None and not task.job.counts.of(ALLOCATED):
            found[terms.key] = group.metadata.uid
    return found


def stopwatch(clock: Clock, meter: CycleMeter | None) -> OnStep:
    """Returns a function that measures each step of a cycle from the end of the one before."""
    last = started = clock.monotonic()

    def on_step(kind: str, name: str) -> None:
        nonlocal last
        if meter is None:
            return
        now = clock.monotonic()
        # Plugins are opened as a part of the session, whose time counts from the beginning.
        meter.stepped(kind, name, now - (started if kind == "session" else last))
        last = now

    return on_step


def keeps_gangs(config: Config) -> bool:
    """Whether a configuration has jobs start completely or not at all."""
    return any(
        option.name == "gang" and option.is_on("enableJobReady")
        for tier in config.tiers
        for option in tier
    )
