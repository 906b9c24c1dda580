"""Prepares devices and volumes of gangs before their pods are bound, or releases the gangs.

The decisions are `model.devices.preparation` and `model.volumes.preparation`; this carries them
out. Devices come first: they alone can be given back. A batch is all tasks of a job that one cycle
decided together. Its tasks count as binding meanwhile, so they keep their room. Tasks that come
later and make a whole gang only with these wait for them. The states of one batch:

    writing <---> waiting ----> handed to the binder, which checks all of it once more
       |             |
       +------+------+
              v
     giving devices back ----> backing off ----> forgotten: the next cycle places its tasks anew
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from swell.api.backoff import Backoff
from swell.api.core import EventSeverity
from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.api.times import format_time
from swell.api.wording import count_of
from swell.runtime.clock import Clock
from swell.runtime.executor import EventSink, FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue
from swell.scheduler.cycle import SchedulingPlan
from swell.scheduler.live.binder import FAILED, Binder
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.live.pins import PinRemover
from swell.scheduler.live.preparation_batch import PreparationBatch, standing
from swell.scheduler.live.preparation_writes import PreparationWrite, PreparationWriter
from swell.scheduler.model.devices.preparation import (
    DeviceWrites,
    ProtectClaim,
    give_back,
    next_device_step,
    next_naming,
)
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.model.volumes.claims import selected_node
from swell.scheduler.model.volumes.preparation import (
    PreparationFailed,
    PreparationReady,
    PreparationStep,
    PreparationWaits,
    PreparationWrites,
    ReserveVolume,
    SelectNode,
    VolumeLost,
    needs_preparation,
    next_step,
    removable_pins,
)

log = get_logger(__name__)

# Batches that are worked on at a time; the writes of each are concurrent.
_WORKERS = 4
# How long a batch that failed keeps its room before its tasks are placed again: as for a binding.
_RETRY_BACKOFF = Backoff(base_s=0.2, cap_s=10.0)
# How long the node where a claim got no volume is avoided, if another takes the pod.
_AVOID_S: Final = 300.0
# How often another volume is chosen for a claim whose volume was taken by others.
_LOST_MAX: Final = 3


class Preparer:
    """Works off batches. `take` only queues them."""

    def __init__(
        self,
        cache: SchedulerCache,
        writer: PreparationWriter,
        binder: Binder,
        events: EventSink,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._binder = binder
        self._events = events
        self._clock = clock
        self._random = random
        self._queue = WorkQueue[PreparationBatch](clock=clock, random=random)
        self._pins = PinRemover(cache, writer, clock=clock, random=random)
        self._batches: dict[PreparationBatch, None] = {}
        self._failures: dict[str, int] = {}  # job -> failures in a row

    # --- queueing

    def take(self, plan: SchedulingPlan, timeout_s: float) -> None:
        """Queue the bindings of a plan: at once, or after the devices and volumes of their gang."""
        self._pins.add(plan.lost_pins)
        self._avoid(self._pins.watch(plan.waiting_pins, timeout_s))
        jobs = {
            task.job.key
            for task, choice in plan.volumes.items()
            if task.job is not None and needs_preparation(choice)
        }
        jobs |= {task.job.key for task in plan.devices if task.job is not None}
        jobs |= {batch.job for batch in self._batches}
        if not jobs:
            self._binder.bind(plan.binds)
            return
        ready = {t: n for t, n in plan.binds.items() if t.job is None or t.job.key not in jobs}
        self._binder.bind(ready)
        batches: dict[str, list[Task]] = {}
        for task in plan.binds:
            if task.job is not None and task.job.key in jobs:
                batches.setdefault(task.job.key, []).append(task)
        for job, tasks in batches.items():
            self._begin(job, tasks, timeout_s)

    def _begin(self, key: str, tasks: list[Task], timeout_s: float) -> None:
        job = self._cache.snapshot.jobs[key]
        batch = PreparationBatch(
            key,
            tuple((task.pod.metadata.key, task.pod.metadata.uid) for task in tasks),
            job.counts.ready >= job.min_member,
            self._clock.monotonic() + timeout_s,
            format_time(self._clock.now()),
        )
        self._batches[batch] = None
        self._queue.add(batch)

    def check(self) -> None:
        """Look at every batch again: something has changed, or a deadline has passed."""
        for batch in self._batches:
            if not batch.is_failed:
                self._queue.add(batch)

    @property
    def n_batches(self) -> int:
        return len(self._batches)

    def next_deadline(self) -> float | None:
        times = [b.deadline for b in self._batches if not b.is_failed]
        return min((*times, *self._pins.deadlines()), default=None)

    # --- working

    async def run(self) -> None:
        workers = (self._queue.serve(self._work) for _ in range(_WORKERS))
        await asyncio.gather(*workers, self._pins.run())

    def stop(self) -> None:
        self._queue.close()
        self._pins.stop()

    async def _work(self, batch: PreparationBatch) -> None:
        if batch not in self._batches:
            return
        if batch.is_failed:
            await self._wind_up(batch)
            return
        # Nothing is decided while the snapshot is being mended; its rebuild starts a cycle.
        while self._cache.is_filled:
            tasks = standing(self._cache, batch)
            if tasks is None or batch.has_lost_others(self._batches, tasks[0].job):
                self._release(batch, "its pods, its group or its nodes have changed meanwhile")
                return
            if not await self._do(batch, tasks, self._next_step(batch, tasks)):
                return

    def _next_step(
        self, batch: PreparationBatch, tasks: list[Task]
    ) -> PreparationStep | DeviceWrites:
        snapshot, claims = self._cache.snapshot, self._cache.informers.resource_claims
        choices = snapshot.devices.choices.by_task
        use = snapshot.devices.objects.use
        step = next_device_step(claims.get, tasks, choices, batch.devices, use)
        if isinstance(step, PreparationFailed):
            return step
        if self._writer.fencing and any(task.shape.claims_devices for task in tasks):
            return _waits_for(self._writer.fencing, "to be taken over from an earlier process")
        if freeing := self._writer.freeing.intersection(batch.devices.expected):
            return _waits_for(freeing, "to be freed first")
        step = step or next_naming(claims.get, tasks, snapshot.devices)
        if step is not None:
            return step
        # Tasks of a gang that have no volumes take no part in this.
        with_volumes = [task for task in tasks if task.shape.claims_volumes]
        return next_step(snapshot.volumes, with_volumes, batch.written)

    async def _do(
        self, batch: PreparationBatch, tasks: list[Task], step: PreparationStep | DeviceWrites
    ) -> bool:
        """Carry out one step; whether the next is to be decided at once."""
        match step:
            case PreparationReady() if not self._awaits_others(batch):
                self._hand_over(batch, tasks)
            case PreparationFailed(why, avoided):
                self._avoid(avoided)
                self._release(batch, why)
            case VolumeLost():
                return self._replace(batch, step)
            case _ if self._is_overdue(batch):
                await self._time_out(batch, tasks, step)
            case PreparationWrites() | DeviceWrites():
                self._report(
                    batch, f"{count_of(len(step.writes), 'claim is', 'claims are')} being written"
                )
                return await self._write(batch, step.writes)
            case PreparationWaits():
                self._report(batch, step.text)
            case PreparationReady():
                pass  # the batch it waits for says why, and has it looked at when it ends
        return False

    def _awaits_others(self, batch: PreparationBatch) -> bool:
        return bool(batch.awaited(self._batches, self._cache.snapshot.jobs[batch.job]))

    def _is_overdue(self, batch: PreparationBatch) -> bool:
        return batch.deadline <= self._clock.monotonic()

    def _hand_over(self, batch: PreparationBatch, tasks: list[Task]) -> None:
        self._end(batch)
        self._failures.pop(batch.job, None)
        names = self._cache.snapshot.nodes.names
        self._binder.bind({task: names[task.node] for task in tasks})

    def _replace(self, batch: PreparationBatch, lost: VolumeLost) -> bool:
        """Choose another volume on the same node for a claim that lost its own; or release."""
        claim, volume = lost.claim, lost.volume
        batch.n_lost[claim] = batch.n_lost.get(claim, 0) + 1
        why = f"volume {volume} for claim {claim} was taken by another claim"
        if batch.n_lost[claim] <= _LOST_MAX:
            chosen = self._cache.snapshot.volumes.reservations.rechoose(lost.task)
            if not chosen.problem:
                log.info("volume replaced", claim=claim, lost=volume)
                return True
            why = f"{why}; {chosen.problem}"
        self._release(batch, why)
        return False

    async def _write(self, batch: PreparationBatch, writes: tuple[PreparationWrite, ...]) -> bool:
        """Do the writes of one step; whether to go on at once. Stale objects are read first."""
        failure = await self._writer.write(writes)
        if failure is None:
            # Those of a step that failed may not have been begun.
            batch.written |= {
                str(write.claim.metadata.key)
                for write in writes
                if isinstance(write, ReserveVolume | SelectNode)
            }
            batch.is_uncertain = batch.must_read = False
            self._queue.forget(batch)
            return True
        batch.must_read = True
        batch.is_uncertain |= failure.kind is FailureKind.UNKNOWN
        log.info("gang not prepared", job=batch.job, why=failure.message)
        if failure.kind is FailureKind.REFUSED:
            self._release(batch, f"the server refused: {failure.message}")
            return False
        if not await self._writer.read(writes):
            self._queue.retry(batch, failure.retry_after_s)
            return False
        if failure.kind is FailureKind.RETRY:
            self._queue.retry(batch, failure.retry_after_s)
            return False
        return True

    # --- failing

    async def _time_out(
        self,
        batch: PreparationBatch,
        tasks: list[Task],
        step: PreparationStep | DeviceWrites,
    ) -> None:
        """Take the selected nodes back, so that the volumes can be made elsewhere, and release."""
        table = self._cache.snapshot.volumes
        pins = tuple(removable_pins(table, tasks))
        self._avoid({str(pin.claim.metadata.key): selected_node(pin.claim) for pin in pins})
        waits = f": {step.text}" if isinstance(step, PreparationWaits) else ""
        text = f"its volumes were not bound in time{waits}"
        batch.is_failed = True  # nothing looks at it while the nodes are taken back
        await self._pins.take_back(pins)
        self._release(batch, text, WaitReason.VOLUME_BIND_TIMEOUT)

    def _release(
        self, batch: PreparationBatch, why: str, reason: WaitReason = WaitReason.PREPARING
    ) -> None:
        """Have the tasks of a batch placed anew, after they have kept their room for a while."""
        failed = batch.others(self._batches, is_failed=True)
        if failed:
            again_at = max(one.again_at for one in failed)
        else:
            n_failures = self._failures[batch.job] = self._failures.get(batch.job, 0) + 1
            delay_s = _RETRY_BACKOFF.jittered_s(n_failures, self._random.random())
            again_at = self._clock.monotonic() + delay_s
        batch.is_failed, batch.again_at = True, again_at
        self._report(batch, why, reason)
        for key, uid in batch.pods:
            if self._cache.task_of(key, uid) is not None:
                warning = EventSeverity.WARNING
                self._events.record(EmitEvent(PODS, key, uid, warning, FAILED, why))
        log.info("gang released before it was bound", job=batch.job, why=why)
        self._queue.forget(batch)
        for one in (batch, *batch.others(self._batches, is_failed=False)):
            self._queue.add(one)

    async def _wind_up(self, batch: PreparationBatch) -> None:
        """Give the devices of a batch that failed back, then forget it after its back-off.

        All that failed of a gang is forgotten together: if its tasks were placed at different
        times they would wait for each other, and fail again.
        """
        if not await self._give_back(batch):
            self._queue.retry(batch)
            return
        self._queue.forget(batch)
        left_s = batch.again_at - self._clock.monotonic()
        if left_s > 0:
            self._queue.add_after(batch, left_s)
            return
        batch.is_over = True
        failed = (batch, *batch.others(self._batches, is_failed=True))
        if all(one.is_over for one in failed):
            for one in failed:
                self._forget(one)

    async def _give_back(self, batch: PreparationBatch) -> bool:
        """Take the pods of a batch off their claims; whether none is on one any more."""
        claims = self._cache.informers.resource_claims
        found = [claim for key in batch.devices.expected if (claim := claims.get(key)) is not None]
        if batch.must_read:
            if not await self._writer.read([ProtectClaim(claim) for claim in found]):
                return False
            batch.must_read = False
        # A pod that has a node after all, by another scheduler, goes on using its devices.
        uids = {
            uid
            for key, uid in batch.pods
            if (task := self._cache.task_of(key, uid)) is None or not task.pod.spec.node_name
        }
        now = (claims.get(claim.metadata.key) for claim in found)
        writes = [
            write
            for claim in now
            if claim is not None
            and (write := give_back(claim, uids, is_uncertain=batch.is_uncertain)) is not None
        ]
        failure = await self._writer.write(writes) if writes else None
        if failure is not None:
            log.info("devices not given back", job=batch.job, why=failure.message)
            batch.must_read = True
            batch.is_uncertain |= failure.kind is FailureKind.UNKNOWN
        return failure is None

    def _forget(self, batch: PreparationBatch) -> None:
        self._end(batch)
        for key, uid in batch.pods:
            task = self._cache.task_of(key, uid)
            if task is not None and task.status is TaskStatus.BINDING:
                self._cache.forget(task)

    def _end(self, batch: PreparationBatch) -> None:
        del self._batches[batch]
        snapshot = self._cache.snapshot
        waiting = batch.others(self._batches, is_failed=False)
        for other in waiting:
            self._queue.add(other)
        if not waiting and not batch.others(self._batches, is_failed=True):
            snapshot.preparing.pop(batch.job, None)
        if batch.job not in snapshot.jobs:
            self._failures.pop(batch.job, None)
        self._cache.mark_dirty(snapshot.jobs.get(batch.job))

    def _avoid(self, avoided: Mapping[str, str]) -> None:
        until = self._clock.monotonic() + _AVOID_S
        for claim, node in avoided.items():
            self._cache.snapshot.avoided.setdefault(claim, {})[node] = until

    def _report(
        self, batch: PreparationBatch, text: str, reason: WaitReason = WaitReason.PREPARING
    ) -> None:
        """Have the group of a batch say what is awaited, if that is new."""
        refusal = Refusal(reason, f"{text} (since {batch.since})")
        snapshot = self._cache.snapshot
        if snapshot.preparing.get(batch.job) != refusal and batch.job in snapshot.jobs:
            snapshot.preparing[batch.job] = refusal
            self._cache.mark_dirty(snapshot.jobs[batch.job])


def _waits_for(claims: Iterable[Key], what: str) -> PreparationWaits:
    return PreparationWaits(dict.fromkeys(map(str, claims), what), 0, has_volumes=False)
